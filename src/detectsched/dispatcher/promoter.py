"""Brings back what is due: delayed tasks, queues out of their back-off, tasks held since a loss of Redis."""

from __future__ import annotations

from typing import Final

from detectsched import failpoints
from detectsched.db.connection import Ledger
from detectsched.dispatcher.recovery import recover_deliveries
from detectsched.lifecycle import Loop
from detectsched.queueing.queue import Queue
from detectsched.settings import SchedulerSettings

_BATCH: Final = 200


class Promoter(Loop):
    """Sleeps exactly until the next due time, or until something new is deferred."""

    pause_is_elsewhere = True

    def __init__(self, queue: Queue, ledger: Ledger, lanes: tuple[str, ...], settings: SchedulerSettings) -> None:
        super().__init__(settings.safety_tick_seconds)
        self._queue = queue
        self._ledger = ledger
        self._lanes = lanes
        self._settings = settings
        self._next_due: float | None = None

    async def run_once(self) -> int:
        """Promote everything due now; return how many."""
        promoted = 0
        while True:
            done = await self._queue.scripts.promote(
                lease_seconds=self._settings.lease_seconds, limit=_BATCH, lanes=self._lanes
            )
            if done.held:
                failpoints.hit("promote.after_take_over")
            await recover_deliveries(self._queue, self._ledger, done.held, self._settings)
            promoted += done.count
            if done.next_due_seconds != 0:
                break
        self._next_due = done.next_due_seconds
        return promoted

    async def pause(self) -> None:
        """Wait for the next due time or a new deferral, at most for the safety tick."""
        timeout = self._interval if self._next_due is None else min(self._interval, self._next_due)
        # BLPOP takes 0 for "for ever".
        await self._queue.wait_for_deferral(timeout_seconds=max(timeout, 0.001))
