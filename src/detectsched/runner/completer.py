"""Persist, then acknowledge: what a try came to is written to PostgreSQL first, and only then is Redis told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final
from uuid import UUID

from detectsched import failpoints
from detectsched.attempt import Ending, EngineRead, Refused, Started
from detectsched.db.connection import Ledger
from detectsched.db.dead_letters import dead_letter_documents
from detectsched.db.group_commit import GroupCommit
from detectsched.db.results import end, save_reads, was_written
from detectsched.db.starts import start
from detectsched.errors import StoreUnavailable
from detectsched.queueing.queue import Completed, Completion, GivenBack, Queue, Released, Succession
from detectsched.runner.desk import Job
from detectsched.runner.outcome import Stop
from detectsched.task import Delivery
from detectsched.telemetry import get_logger

log = get_logger(__name__)

_GROUP: Final = 200
_RETRY_SECONDS: Final = 0.5


class Completer:
    """The writes of all jobs of a runner, each kind coalesced over the jobs that write at the same time."""

    def __init__(self, queue: Queue, ledger: Ledger, *, runner: str, dead_letters_kept: int) -> None:
        self._queue = queue
        self._ledger = ledger
        self._runner = runner
        self._dead_letters_kept = dead_letters_kept
        self.reply_lost: Callable[[], None] = lambda: None
        self._starts = GroupCommit[Delivery, Started | Refused](self._start, max_items=_GROUP)
        self._reads = GroupCommit[EngineRead, bool](self._save, max_items=_GROUP)
        self._ends = GroupCommit[Ending, bool](self._end, max_items=_GROUP)
        self._completions = GroupCommit[Completion, Succession](self._complete, max_items=_GROUP)
        self._releases = GroupCommit[GivenBack, Released](self._release, max_items=_GROUP)

    async def start(self, delivery: Delivery) -> Started | Refused:
        """Mark a task as running under a new fence."""
        return await self._starts.submit(delivery)

    async def save_read(self, read: EngineRead) -> bool:
        """Keep what an engine read; False when the start is not the current one any more."""
        return await self._reads.submit(read)

    async def persist(self, job: Job, ending: Ending) -> bool | None:
        """Write how a try ended, again and again while PostgreSQL is away and the lease lives.

        Returns False when the write was fenced off, None when it was given up, since the lease is lost or the grace of
        a stopping runner is over: the task then returns by its lease.
        """
        in_doubt = False
        while True:
            try:
                return await self._ends.submit(ending) or (in_doubt and await was_written(self._ledger, ending))
            except StoreUnavailable as error:
                in_doubt = True
                log.warning("cannot persist yet", task=str(ending.task_id), error=error.detail)
            if job.stop in {Stop.LEASE_LOST, Stop.SHUTDOWN}:
                return None
            await asyncio.sleep(_RETRY_SECONDS)

    async def acknowledge(self, done: Completion) -> Succession | None:
        """Forget a terminal task; None when Redis is away: the reaper will find it terminal and do it.

        ``reply_lost`` is called then: a delivery may be in our name that we have not seen.
        """
        try:
            succession = await self._completions.submit(done)
        except StoreUnavailable as error:
            log.warning("cannot acknowledge, left to the reaper", task=str(done.task_id), error=error.detail)
            self.reply_lost()
            return None
        if succession.completed is Completed.GONE:
            # Perhaps the client said it twice, and the first answer, with what came next, was the lost one.
            self.reply_lost()
        return succession

    async def give_back(self, back: GivenBack) -> Released | None:
        """Return a task to its queue; None when Redis is away: it returns by its lease."""
        try:
            return await self._releases.submit(back)
        except StoreUnavailable as error:
            log.warning("cannot give back, left to the reaper", task=str(back.task_id), error=error.detail)
            return None

    async def mirror_dead_letter(self, task_id: UUID) -> None:
        """Put a dead task into the Redis list of the original; PostgreSQL has it in any case."""
        try:
            letters = await dead_letter_documents(self._ledger, [task_id])
            await self._queue.mirror_dead_letters(letters, keep=self._dead_letters_kept)
        except StoreUnavailable as error:
            log.warning("dead letter not mirrored", task=str(task_id), error=error.detail)

    async def _start(self, deliveries: Sequence[Delivery]) -> list[Started | Refused]:
        return await start(self._ledger, deliveries, runner=self._runner)

    async def _save(self, reads: Sequence[EngineRead]) -> list[bool]:
        return await save_reads(self._ledger, reads)

    async def _end(self, endings: Sequence[Ending]) -> list[bool]:
        failpoints.hit("run.before_result_commit")
        written = await end(self._ledger, endings)
        failpoints.hit("run.after_result_commit")
        return written

    async def _complete(self, completions: Sequence[Completion]) -> list[Succession]:
        failpoints.hit("run.before_ack")
        answers = await self._queue.scripts.succeed(completions)
        failpoints.hit("run.after_ack")
        return answers

    async def _release(self, tasks: Sequence[GivenBack]) -> list[Released]:
        failpoints.hit("run.before_give_back")
        answers = await self._queue.scripts.release(tasks)
        failpoints.hit("run.after_give_back")
        return answers
