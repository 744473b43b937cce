"""Finds deliveries whose runner has been silent for a lease, and returns their tasks."""

from __future__ import annotations

import os
import socket
from typing import Final

from detectsched.db.connection import Ledger
from detectsched.dispatcher.recovery import recover_deliveries
from detectsched.lifecycle import Loop
from detectsched.queueing.queue import Queue
from detectsched.settings import SchedulerSettings

_BATCH: Final = 100


class Reaper(Loop):
    """Sweeps every lane; what it takes over stands in its own name until both stores are right."""

    def __init__(self, queue: Queue, ledger: Ledger, lanes: tuple[str, ...], settings: SchedulerSettings) -> None:
        super().__init__(settings.sweep_seconds)
        self._queue = queue
        self._ledger = ledger
        self._lanes = lanes
        self._settings = settings
        self._consumer = f"reaper:{socket.gethostname()}:{os.getpid()}"

    async def run_once(self) -> int:
        """Recover everything that is overdue now; return how many deliveries were taken over."""
        taken = 0
        for lane in self._lanes:
            while True:
                lost = await self._queue.scripts.reclaim(
                    lane, self._consumer, lease_seconds=self._settings.lease_seconds, limit=_BATCH
                )
                await recover_deliveries(self._queue, self._ledger, lost, self._settings)
                taken += len(lost)
                if len(lost) < _BATCH:
                    break
        return taken
