"""Queues what PostgreSQL has and Redis does not: rows whose API died between the commit and the queue."""

from __future__ import annotations

from typing import Final

from detectsched import failpoints
from detectsched.db.accept import open_among, open_since
from detectsched.db.connection import Ledger
from detectsched.dispatcher.placing import placement_of
from detectsched.lifecycle import Loop
from detectsched.queueing.queue import Queue
from detectsched.settings import SchedulerSettings
from detectsched.telemetry import get_logger

log = get_logger(__name__)

_PAGE: Final = 1000
_PATIENCE_SECONDS: Final = 10.0
"""A row younger than this may still be on its way from the API."""


class Reconciler(Loop):
    """Walks the open rows page by page, and begins again at the end."""

    def __init__(
        self, queue: Queue, ledger: Ledger, settings: SchedulerSettings, *, patience_seconds: float = _PATIENCE_SECONDS
    ) -> None:
        super().__init__(settings.sweep_seconds)
        self._queue = queue
        self._ledger = ledger
        self._settings = settings
        self._patience = patience_seconds
        self._after = 0

    async def run_once(self) -> int:
        """Look at one page; return how many tasks had to be queued."""
        rows = await open_since(self._ledger, after=self._after, older_than_seconds=self._patience, limit=_PAGE)
        self._after = rows[-1].task.sequence if len(rows) == _PAGE else 0
        unknown = await self._queue.unknown([row.task.id for row in rows])
        # Redis rightly does not know a task that has ended since it was read; held as running it would block its object
        # for a lease. One that is open still, after Redis did not know it, is lost.
        lost = await open_among(self._ledger, unknown) if unknown else []
        if not lost:
            return 0
        failpoints.hit("reconcile.after_read")
        now_ms = await self._queue.now_ms()
        await self._queue.scripts.enqueue([placement_of(row, self._settings, now_ms=now_ms) for row in lost])
        log.warning("queued tasks that Redis did not know", tasks=len(lost))
        return len(lost)
