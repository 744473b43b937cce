"""Expires waiting tasks whose time to live has passed, also when nobody is about to dispatch them."""

from __future__ import annotations

from typing import Final

from detectsched import failpoints
from detectsched.db.connection import Ledger
from detectsched.db.transitions import expire_due
from detectsched.lifecycle import Loop
from detectsched.queueing.queue import Queue
from detectsched.settings import SchedulerSettings

_BATCH: Final = 500


class Sweeper(Loop):
    """PostgreSQL decides, then the queues are told."""

    def __init__(self, queue: Queue, ledger: Ledger, settings: SchedulerSettings) -> None:
        super().__init__(settings.sweep_seconds)
        self._queue = queue
        self._ledger = ledger

    async def run_once(self) -> int:
        """Expire everything overdue; return how many tasks."""
        expired = 0
        while task_ids := await expire_due(self._ledger, limit=_BATCH):
            failpoints.hit("expire.after_commit")
            await self._queue.scripts.withdraw(task_ids)
            expired += len(task_ids)
        return expired
