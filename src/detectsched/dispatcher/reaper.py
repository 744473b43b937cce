"""Finds deliveries whose runner has been silent for a lease, and returns their tasks."""

from __future__ import annotations

import os
import socket
from typing import Final

from detectsched import failpoints
from detectsched.clock import monotonic
from detectsched.db.connection import Ledger
from detectsched.dispatcher.recovery import recover_deliveries
from detectsched.lifecycle import Loop
from detectsched.queueing.queue import Queue
from detectsched.settings import SchedulerSettings

_BATCH: Final = 100
_PRUNE_EVERY_SECONDS: Final = 600.0
_PRUNE_IDLE_SECONDS: Final = 3600.0
"""A runner asks every second unless it is pressed; one that was removed too early is back with its next question."""


class Reaper(Loop):
    """Sweeps every lane; what it takes over stands in its own name until both stores are right."""

    def __init__(self, queue: Queue, ledger: Ledger, lanes: tuple[str, ...], settings: SchedulerSettings) -> None:
        super().__init__(settings.sweep_seconds)
        self._queue = queue
        self._ledger = ledger
        self._lanes = lanes
        self._settings = settings
        self._pruned_at = monotonic()
        self._consumer = f"reaper:{socket.gethostname()}:{os.getpid()}"

    async def run_once(self) -> int:
        """Recover everything that is overdue now; return how many deliveries were taken over."""
        taken = 0
        for lane in self._lanes:
            while True:
                lost = await self._queue.scripts.reclaim(
                    lane, self._consumer, lease_seconds=self._settings.lease_seconds, limit=_BATCH
                )
                if lost:
                    failpoints.hit("reap.after_take_over")
                await recover_deliveries(self._queue, self._ledger, lost, self._settings)
                taken += len(lost)
                if len(lost) < _BATCH:
                    break
        if monotonic() - self._pruned_at > _PRUNE_EVERY_SECONDS:
            await self._prune()
        return taken

    async def _prune(self) -> None:
        self._pruned_at = monotonic()
        for lane in self._lanes:
            await self._queue.scripts.prune(lane, idle_seconds=_PRUNE_IDLE_SECONDS)
