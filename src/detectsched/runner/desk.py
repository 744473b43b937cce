"""What this runner has in hand: each delivery is worked on by one asyncio task, and can be stopped from outside."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from detectsched.clock import monotonic
from detectsched.lifecycle import Service
from detectsched.runner.outcome import Stop
from detectsched.task import Delivery
from detectsched.telemetry import get_logger

log = get_logger(__name__)

_STRENGTH: Final = {reason: strength for strength, reason in enumerate(Stop)}


@dataclass(eq=False)
class Job:
    """A delivery in hand.

    ``renewed_at`` is when its lease was last known good (monotonic seconds), ``seconds`` how long its examination took.
    """

    delivery: Delivery
    renewed_at: float = field(default_factory=monotonic)
    stop: Stop | None = None
    examining: asyncio.Task[object] | None = None
    seconds: float = 0.0

    def interrupt(self, reason: Stop) -> None:
        """Stop the examination, for this reason; what is being written is not interrupted.

        A stronger reason takes the place of a weaker one, for whoever still tries to write.
        """
        first = self.stop is None
        if self.stop is None or _STRENGTH[reason] > _STRENGTH[self.stop]:
            self.stop = reason
        if first and self.examining is not None:
            self.examining.cancel()


class Desk(Service):
    """Holds the jobs; stopping it lets them finish within the grace, then gives the rest back.

    ``work`` brings a job to its end and returns the delivery that is in hand in its place, if any.
    """

    def __init__(self, work: Callable[[Job], Coroutine[None, None, Delivery | None]], *, grace_seconds: float) -> None:
        self._work = work
        self._grace = grace_seconds
        self._jobs: dict[asyncio.Task[Delivery | None], Job] = {}
        self._idle_since = monotonic()
        self._freed = asyncio.Event()
        self._broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def name(self) -> str:
        """Desk."""
        return "desk"

    def take(self, delivery: Delivery) -> None:
        """Begin to work on a delivery, unless it is in hand already; an older one of the same task is lost by it.

        The same delivery comes twice when Redis lost its data and was rebuilt in between.
        """
        for other in self._jobs.values():
            if other.delivery.task_id == delivery.task_id:
                if other.delivery.number >= delivery.number:
                    return
                other.interrupt(Stop.LEASE_LOST)
        job = Job(delivery)
        task = asyncio.create_task(self._work(job), name=f"job:{delivery.task_id}")
        self._jobs[task] = job
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Delivery | None]) -> None:
        del self._jobs[task]
        self._idle_since = monotonic()
        if task.cancelled():
            successor, error = None, None
        else:
            error = task.exception()
            successor = None if error else task.result()
        if successor is not None:
            self.take(successor)
        self._freed.set()
        if error is not None and not self._broken.done():
            # A job handles every failure of its task; what escapes is a bug of ours and must not be silent.
            self._broken.set_exception(error)

    def jobs(self) -> list[Job]:
        """Return everything in hand."""
        return list(self._jobs.values())

    def idle_seconds(self) -> float:
        """Return for how long nothing has been in hand; 0 while something is."""
        return 0.0 if self._jobs else monotonic() - self._idle_since

    def in_hand(self, lane: str) -> int:
        """Return how many deliveries of a lane are in hand."""
        return sum(job.delivery.lane == lane for job in self._jobs.values())

    def interrupt(self, task_id: UUID, reason: Stop) -> None:
        """Stop working on a task, if it is in hand."""
        for job in self._jobs.values():
            if job.delivery.task_id == task_id:
                job.interrupt(reason)

    async def wait_for_room(self, timeout_seconds: float) -> None:
        """Wait until a job has ended."""
        self._freed.clear()
        try:
            await asyncio.wait_for(self._freed.wait(), timeout_seconds)
        except TimeoutError:
            return

    async def start(self) -> None:
        """Nothing to begin: jobs come by `take`."""

    async def wait(self) -> None:
        """Raise when a job ended by a bug."""
        await asyncio.shield(self._broken)

    async def stop(self) -> None:
        """Let the jobs finish within the grace, then interrupt them, and wait until each is given back."""
        if not self._broken.done():
            self._broken.cancel()
        deadline = monotonic() + self._grace
        # Jobs may still be followed by others, whose deliveries were on their way.
        while self._jobs and (left := deadline - monotonic()) > 0:
            await asyncio.wait(self._jobs, timeout=left)
        if self._jobs:
            log.warning("giving back what could not be finished within the grace", tasks=len(self._jobs))
        while self._jobs:
            for job in self.jobs():
                job.interrupt(Stop.SHUTDOWN)
            await asyncio.wait(self._jobs)
