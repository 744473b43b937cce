"""A short, blameless life of a system, made by hand on real stores: what the checker must find nothing wrong with."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from chaos.history import INSTALL
from chaos.journal import Accepted, Asked, Fault, Journal, Probe, Record, Run, Sample, Usage
from detectsched.attempt import Ending, Started
from detectsched.db.accept import NewTask, accept
from detectsched.db.connection import Ledger
from detectsched.db.results import end
from detectsched.db.starts import start
from detectsched.db.transitions import cancel
from detectsched.detection import Detection
from detectsched.queueing.connection import RedisClients
from detectsched.queueing.queue import Completion, GivenBack, Placement, Queue
from detectsched.settings import Settings
from detectsched.task import DEFAULT_TENANT, QueueId, TaskError, TaskKind, TaskState, new_task_id
from tests.support.actors import DEFAULT_TURNS, new_text

RUNNER = "host:1:boot"


@dataclass
class SmallRun:
    """The stores, the journal, and the tasks by what they were."""

    settings: Settings
    clients: RedisClients
    queue: Queue
    ledger: Ledger
    journal: Journal

    async def submit(self, task: NewTask) -> UUID:
        """Ask for a task as a client, and be told 202."""
        assert task.idempotency_key is not None
        self.journal.write(Asked(self.journal.now(), task.idempotency_key, task.tenant, task.object))
        [row] = await accept(self.ledger, [task])
        await self.queue.scripts.enqueue([Placement(row.task, row.entitlement)])
        told = Accepted(self.journal.now(), task.idempotency_key, task.tenant, str(row.task.id), task.object)
        self.journal.write(told)
        return row.task.id

    async def begin(self, room: int = 1) -> list[Started]:
        """Hand out tasks and start them."""
        await self.queue.scripts.dispatch("text", capacity=room, live=[RUNNER], turns=DEFAULT_TURNS)
        deliveries = await self.queue.read("text", RUNNER, count=room, block_seconds=0.01)
        return [each for each in await start(self.ledger, deliveries, runner=RUNNER) if isinstance(each, Started)]

    async def finish(self, started: Started, state: TaskState = TaskState.SUCCEEDED) -> None:
        """Persist an end, then acknowledge it."""
        task_id, number = started.delivery.task_id, started.delivery.number
        detection = Detection((), ()) if state is TaskState.SUCCEEDED else None
        error = TaskError("engine_failed", "once") if detection is None else None
        again = state is TaskState.QUEUED
        ending = Ending(task_id, started.tenant, started.fence, state, again, error, detection)
        assert await end(self.ledger, [ending]) == [True]
        if again:
            await self.queue.scripts.release([GivenBack(task_id, number)])
        else:
            await self.queue.scripts.complete([Completion(task_id, number)])

    async def work_off(self) -> None:
        """Run what waits, one after the other; the first fails once, the second for good."""
        outcomes = [TaskState.QUEUED, TaskState.FAILED]
        while begun := await self.begin():
            await self.finish(begun[0], outcomes.pop() if outcomes else TaskState.SUCCEEDED)

    async def live(self) -> None:
        """Live the whole life, and leave the stores at rest."""
        async with self.ledger.connection() as connection:
            await connection.execute(INSTALL)
        self.journal.write(Run(self.journal.now(), 1, 2.0, 0.2, 1.0, 0, ("redis-flushed", "redelivery")))
        self.journal.write(Usage(self.journal.now(), "start", "redis", {"redis_mb": 2.0}))
        tasks = [new_text(number % 2, key=f"device {number}") for number in range(12)]
        tasks += [text_of_object(f"door {number % 2}", f"object {number}") for number in range(6)]
        for task in tasks:
            await self.submit(task)
        waiting = await self.submit(new_text(1, key="cancelled"))
        await cancel(self.ledger, DEFAULT_TENANT, waiting)
        await self.queue.scripts.withdraw([waiting])
        await self.work_off()
        now = self.journal.now()
        for record in (
            Fault(now, "redis-flushed", "begin", blinds=True),
            Probe(now + 1, ready=False),
            Fault(now + 5, "redis-flushed", "end"),
            Sample(now + 6, {"global_pending": 0}),
            Usage(now + 6, "end", "redis", {"redis_mb": 2.1}),
        ):
            self.journal.write(record)


def text_of_object(name: str, key: str) -> NewTask:
    """Return a text of an object, to be accepted."""
    return NewTask(
        id=new_task_id(),
        tenant=DEFAULT_TENANT,
        kind=TaskKind.TEXT,
        lane="text",
        queue=QueueId.of_object(DEFAULT_TENANT, name),
        cost=1.0,
        ttl_seconds=3600,
        object=name,
        text="a text",
        idempotency_key=key,
        request_hash=b"hash",
    )


@asynccontextmanager
async def lived(settings: Settings, path: Path) -> AsyncIterator[SmallRun]:
    """Give a run that is over."""
    clients = RedisClients(settings.redis, name="small-run")
    ledger, journal = Ledger(settings.postgres), Journal(path)
    run = SmallRun(settings, clients, Queue(clients, settings), ledger, journal)
    try:
        token = await run.queue.rebuild.begin()
        assert token is not None
        await run.queue.rebuild.wipe(token, settings.lanes)
        await run.queue.rebuild.open(token)
        await run.live()
        yield run
    finally:
        journal.close()
        await clients.close()
        await ledger.close()


def retold(journal: list[Record], **changes: Record) -> list[Record]:
    """Return a journal with records put in for others, named by their key."""
    return [changes.get(getattr(record, "key", ""), record) for record in journal]
