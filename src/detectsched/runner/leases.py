"""Renews the leases of everything in hand; what cannot be renewed is stopped before somebody else takes it."""

from __future__ import annotations

from detectsched.clock import monotonic
from detectsched.errors import StoreUnavailable
from detectsched.lifecycle import Loop
from detectsched.queueing.queue import Queue, Renewed
from detectsched.runner.desk import Desk, Job
from detectsched.runner.outcome import Stop
from detectsched.settings import Settings
from detectsched.telemetry import get_logger

log = get_logger(__name__)


class Leases(Loop):
    """An owner whose renewal has failed for two thirds of the lease stops working and writes nothing more."""

    def __init__(self, queue: Queue, desk: Desk, consumer: str, settings: Settings) -> None:
        # A lease holds at least three heartbeats, so that one missed renewal costs nothing.
        super().__init__(min(settings.runner.heartbeat_seconds, settings.scheduler.lease_seconds / 3))
        self._queue = queue
        self._desk = desk
        self._consumer = consumer
        self._lease = settings.scheduler.lease_seconds

    async def run_once(self) -> int:
        """Renew everything in hand; return how many leases are good."""
        jobs = self._desk.jobs()
        if not jobs:
            return 0
        asked_at = monotonic()
        try:
            answers = await self._queue.scripts.renew(
                self._consumer,
                [(job.delivery.task_id, job.delivery.number) for job in jobs],
                lease_seconds=self._lease,
            )
        except StoreUnavailable:
            self._drop_overdue(jobs)
            raise
        for job, answer in zip(jobs, answers, strict=True):
            if answer is Renewed.STALE:
                # Completed meanwhile, or taken from us; in the first case there is nothing left to interrupt.
                job.interrupt(Stop.LEASE_LOST)
                continue
            job.renewed_at = asked_at
            if answer is Renewed.CANCEL:
                job.interrupt(Stop.CANCEL)
        return sum(answer is not Renewed.STALE for answer in answers)

    def _drop_overdue(self, jobs: list[Job]) -> None:
        limit = self._lease * 2 / 3
        overdue = [job for job in jobs if monotonic() - job.renewed_at > limit and job.stop is None]
        for job in overdue:
            job.interrupt(Stop.LEASE_LOST)
        if overdue:
            log.error("leases could not be renewed, work stopped", tasks=len(overdue))
