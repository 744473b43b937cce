"""One typed function per script: nothing else knows the order of arguments or the words of the answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby, islice
from typing import Any, Final, Protocol
from uuid import UUID

from detectsched.queueing.vocabulary import (
    MOST_PER_CALL,
    Admission,
    Audit,
    Backoff,
    Completed,
    Completion,
    Deferred,
    Dispatched,
    Enqueued,
    GivenBack,
    Placement,
    Promoted,
    Released,
    Renewed,
    Succession,
    Turns,
    Verdict,
    Withdrawn,
)
from detectsched.task import Delivery, Entitlement, QueueId
from detectsched.telemetry import get_logger

log = get_logger(__name__)


class Call(Protocol):
    """Runs a script under the current generation: (name, arguments after the generation) → its answer."""

    async def __call__(self, name: str, arguments: Sequence[str | int | float | bytes]) -> list[bytes]:
        """Run it.

        Raises:
            GenerationLost: the gate is closed.
            StoreUnavailable: Redis is away.
        """
        ...


_SENDERS: Final = 2
"""Calls under way at once where many tasks are queued: Redis need not wait for the next to be made ready."""
_ENQUEUED: Final = {word.value.encode(): word for word in Enqueued}


def _run_of(placement: Placement) -> tuple[QueueId, str, Entitlement]:
    """Return what the neighbours of a run have in common: it is said to enqueue.lua once."""
    return placement.task.queue, placement.task.lane, placement.entitlement


def _flat(entitlement: Entitlement) -> list[str | int | float]:
    return [
        entitlement.limit,
        f"{entitlement.weight:.6g}",
        f"{entitlement.rate:.6g}",
        entitlement.burst,
        f"{entitlement.tenant_weight:.6g}",
        f"{entitlement.tenant_rate:.6g}",
        entitlement.tenant_burst,
    ]


class Scripts:
    """The scripts as typed functions; ``now_ms`` replaces Redis TIME in tests and simulation.

    ``turns``: how a lane is served when a completion makes room.
    """

    def __init__(
        self,
        call: Call,
        *,
        meta_ttl_seconds: int,
        backoff: Backoff,
        turns: Turns,
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        self._call = call
        self._turns = turns
        self._backoff: list[str | int | float] = [
            backoff.threshold,
            round(backoff.base_seconds * 1000),
            round(backoff.max_seconds * 1000),
        ]
        self._meta_ttl = meta_ttl_seconds
        self._now_ms = now_ms

    def _now(self) -> str:
        return "" if self._now_ms is None else str(self._now_ms())

    async def admit(
        self, requests: Sequence[tuple[str, int]], *, max_total: int, max_subject: int, release: int
    ) -> list[Admission]:
        """Judge requests of (subject, tasks it brings), in order."""
        flat: list[str | int | float] = [max_total, max_subject, release]
        for subject, count in requests:
            flat += [subject, count]
        answer = await self._call("admit", flat)
        return [
            Admission(Verdict(answer[i].decode()), int(answer[i + 1]), int(answer[i + 2]))
            for i in range(0, len(answer), 3)
        ]

    async def enqueue(self, placements: Sequence[Placement]) -> list[Enqueued]:
        """Queue tasks; idempotent by task id."""
        answers: list[Enqueued] = []
        for i in range(0, len(placements), MOST_PER_CALL):
            answers += await self._enqueue(placements[i : i + MOST_PER_CALL])
        return answers

    async def enqueue_all(self, placements: Iterable[Placement]) -> None:
        """Queue any number of tasks; best in order of their queues, so that a call has to do with few.

        While Redis works on one call, the next is made ready and sent. The two may come to it in either order: a task's
        place is that of its sequence.

        Raises:
            ExceptionGroup: of what a call raised; the other one is cancelled, and no more of ``placements`` is taken.
        """
        left = iter(placements)

        async def send() -> None:
            while some := list(islice(left, MOST_PER_CALL)):
                await self._enqueue(some)

        async with asyncio.TaskGroup() as senders:
            for _ in range(_SENDERS):
                senders.create_task(send())

    async def _enqueue(self, placements: Sequence[Placement]) -> list[Enqueued]:
        flat: list[str | int | float] = [self._now(), self._meta_ttl]
        for (queue, lane, entitlement), found in groupby(placements, _run_of):
            run = list(found)
            flat += [str(queue), lane, *_flat(entitlement), len(run)]
            for placement in run:
                task = placement.task
                flat += [
                    str(task.id),
                    task.created_ms,
                    f"{task.cost:.6g}",
                    task.sequence,
                    task.expires_ms,
                    task.not_before_ms,
                    task.delivery,
                    placement.held_by,
                ]
        return [_ENQUEUED[word] for word in await self._call("enqueue", flat)]

    async def dispatch(self, lane: str, *, capacity: int, live: Sequence[str], turns: Turns) -> Dispatched:
        """Hand tasks to a lane's stream, up to the capacity of its live runners (their consumer names)."""
        answer = await self._call(
            "dispatch",
            [
                self._now(),
                self._meta_ttl,
                lane,
                capacity,
                *_turns(turns),
                turns.max_tasks,
                *live,
            ],
        )
        return Dispatched(int(answer[1]), int(answer[2]), answer[3] == b"1", int(answer[4]))

    async def complete(self, completions: Sequence[Completion]) -> list[Completed]:
        """Forget tasks that are terminal in PostgreSQL."""
        return [done.completed for done in await self.succeed(completions)]

    async def succeed(self, completions: Sequence[Completion]) -> list[Succession]:
        """Forget tasks that are terminal in PostgreSQL, and give their takers what comes next.

        After a lost reply a taker may have a delivery in its name that it never saw: `mine` tells.
        """
        answers: list[Succession] = []
        for i in range(0, len(completions), MOST_PER_CALL):
            answers += await self._succeed(completions[i : i + MOST_PER_CALL])
        return answers

    async def _succeed(self, completions: Sequence[Completion]) -> list[Succession]:
        flat: list[str | int | float] = [self._now(), self._meta_ttl, *self._backoff, *_turns(self._turns)]
        for done in completions:
            seconds = "" if done.seconds is None else f"{done.seconds:.6g}"
            taker = "" if done.taker is None else done.taker.consumer
            flat += [str(done.task_id), done.delivery, done.result.value, seconds, taker]
        answers: list[Any] = await self._call("complete", flat)
        return [_succession(done, answer) for done, answer in zip(completions, answers, strict=True)]

    async def release(self, tasks: Sequence[GivenBack]) -> list[Released]:
        """Give tasks back to their queues, in their place by sequence."""
        answers: list[Released] = []
        for i in range(0, len(tasks), MOST_PER_CALL):
            answers += await self._release(tasks[i : i + MOST_PER_CALL])
        return answers

    async def _release(self, tasks: Sequence[GivenBack]) -> list[Released]:
        flat: list[str | int | float] = [self._now(), self._meta_ttl, *self._backoff]
        for task in tasks:
            flat += [str(task.task_id), task.delivery, round(task.delay_seconds * 1000), task.why]
        return [Released(word.decode()) for word in await self._call("release", flat)]

    async def renew(self, consumer: str, tasks: Sequence[tuple[UUID, int]], *, lease_seconds: float) -> list[Renewed]:
        """Renew a runner's leases on tasks given as (id, delivery)."""
        flat: list[str | int | float] = [self._now(), consumer, round(lease_seconds * 1000)]
        for task_id, delivery in tasks:
            flat += [str(task_id), delivery]
        return [Renewed(word.decode()) for word in await self._call("renew", flat)]

    async def mine(self, lane: str, consumer: str, *, limit: int) -> list[Delivery]:
        """Return what is pending in a runner's name in a lane."""
        answer = await self._call("mine", [lane, consumer, limit])
        entries = (answer[i : i + 3] for i in range(1, len(answer), 3))
        found = [delivery_of(lane, entry_id, task_id, number) for entry_id, task_id, number in entries]
        return [delivery for delivery in found if delivery is not None]

    async def reclaim(self, lane: str, reaper: str, *, lease_seconds: float, limit: int) -> list[Delivery]:
        """Take over deliveries of a lane whose owners have been silent for a lease.

        Fewer than ``limit`` are all that there are; what one script call finds is taken whole, even a little beyond it.
        """
        lost: list[Delivery] = []
        cursor = "0-0"
        while len(lost) < limit:
            answer = await self._call("reclaim", [lane, reaper, round(lease_seconds * 1000), limit, cursor])
            cursor = answer[1].decode()
            lost += _deliveries(lane, answer[2:])
            if cursor == "0-0":
                break
        return lost

    async def prune(self, lane: str, *, idle_seconds: float) -> int:
        """Remove a lane's consumers that hold nothing and have been silent for so long; return how many."""
        return int((await self._call("prune", [lane, round(idle_seconds * 1000)]))[1])

    async def promote(self, *, lease_seconds: float, limit: int, lanes: Sequence[str]) -> Promoted:
        """Bring back delayed tasks, and queues and tenants out of their back-off, that are due."""
        answer = await self._call("promote", [self._now(), self._meta_ttl, round(lease_seconds * 1000), limit, *lanes])
        due = int(answer[1]) / 1000 if answer[1] else None
        return Promoted(int(answer[2]), due, tuple(_deliveries("", answer[3:])))

    async def defer(self, lane: str, *, policy: str, max_defers: int, limit: int) -> Deferred:
        """Let the queues of a lane without healthy runners back off, or give up their heads."""
        _, base, most = self._backoff
        answer = await self._call("defer", [self._now(), self._meta_ttl, lane, policy, base, most, max_defers, limit])
        return Deferred(int(answer[1]), int(answer[2]), answer[3] == b"1")

    async def resume(self, lane: str, *, limit: int) -> tuple[int, bool]:
        """End back-offs for want of a runner; return how many, and whether more are left."""
        answer = await self._call("resume", [self._now(), self._meta_ttl, lane, limit])
        return int(answer[1]), answer[2] == b"1"

    async def entitle(self, changes: Sequence[tuple[QueueId, str, Entitlement]]) -> None:
        """Note what queues, given with their lane, may have from now on."""
        for i in range(0, len(changes), MOST_PER_CALL):
            flat: list[str | int | float] = [self._now(), self._meta_ttl]
            for queue, lane, entitlement in changes[i : i + MOST_PER_CALL]:
                flat += [str(queue), lane, *_flat(entitlement)]
            await self._call("entitle", flat)

    async def pause(self, what: str, *, paused: bool, lanes: Sequence[str], queues: Sequence[QueueId] = ()) -> None:
        """Pause or resume ``lane:<lane>``, ``tenant:<tenant>`` or ``subject:<subject>`` (with its queues)."""
        await self._call(
            "pause",
            [self._now(), self._meta_ttl, what, int(paused), len(lanes), *lanes, *map(str, queues)],
        )

    async def audit(self, queues: Sequence[str], *, lanes: Sequence[str], max_out: int) -> Audit:
        """Put places in flight of some queues right; look whether counters agree and keys are of their types."""
        answer = await self._call("audit", [self._now(), self._meta_ttl, max_out, len(lanes), *lanes, *queues])
        return Audit(answer[1] == b"1", int(answer[2]), answer[3].decode())

    async def settle(self, elements: Sequence[bytes]) -> int:
        """Empty the settlement list of elements that PostgreSQL has; return how many were still there."""
        return int((await self._call("settle", elements))[1])

    async def withdraw(self, task_ids: Sequence[UUID]) -> list[Withdrawn]:
        """Take tasks out of the queues that PostgreSQL has ended, or is asked to end."""
        answer = await self._call("withdraw", [self._now(), self._meta_ttl, *map(str, task_ids)])
        return [Withdrawn(word.decode()) for word in answer]


def _turns(turns: Turns) -> list[str | int | float]:
    return [turns.batch, turns.min_batch, round(turns.starvation_seconds * 1000), turns.order]


def _succession(done: Completion, answer: Sequence[bytes]) -> Succession:
    word, *entry = answer
    lane = "" if done.taker is None else done.taker.lane
    return Succession(Completed(word.decode()), delivery_of(lane, *entry) if entry else None)


def delivery_of(lane: str, entry_id: bytes, task_id: bytes | None, number: bytes | None) -> Delivery | None:
    """Return the delivery that a stream entry stands for; None, and a line in the log, if it stands for none.

    Nothing of ours writes such an entry, and no reader may die of it; the reaper removes it after its lease.
    """
    try:
        return Delivery(UUID((task_id or b"").decode()), int(number or b""), lane, entry_id.decode())
    except ValueError:
        log.warning("malformed stream entry ignored", lane=lane, entry=entry_id, task=task_id, delivery=number)
        return None


def _deliveries(lane: str, flat: Sequence[bytes]) -> list[Delivery]:
    return [Delivery(UUID(flat[i].decode()), int(flat[i + 1] or 0), lane, entry_id="") for i in range(0, len(flat), 2)]
