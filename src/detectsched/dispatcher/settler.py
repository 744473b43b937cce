"""Writes to PostgreSQL what scripts have decided for good, and only then empties the settlement list."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from detectsched.db.connection import Ledger
from detectsched.db.transitions import expire
from detectsched.lifecycle import Loop
from detectsched.queueing.queue import Queue
from detectsched.settings import SchedulerSettings

_BATCH: Final = 500


class Settler(Loop):
    """Settles expired tasks; several settlers may do the same ones, which changes nothing."""

    def __init__(self, queue: Queue, ledger: Ledger, settings: SchedulerSettings) -> None:
        super().__init__(settings.safety_tick_seconds)
        self._queue = queue
        self._ledger = ledger

    async def run_once(self) -> int:
        """Settle everything that is on the list now; return how many elements."""
        settled = 0
        while elements := await self._queue.settlements(_BATCH):
            await expire(self._ledger, [UUID(element.decode().partition("|")[2]) for element in elements])
            settled += await self._queue.scripts.settle(elements)
        return settled
