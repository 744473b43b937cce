"""Makes the queues anew from PostgreSQL when Redis has lost them: the gate stays closed until it is done."""

from __future__ import annotations

import asyncio
from typing import Final

from detectsched import failpoints
from detectsched.clock import monotonic
from detectsched.db.connection import Ledger
from detectsched.db.control import milliseconds, pauses
from detectsched.db.open_tasks import open_page
from detectsched.dispatcher.placing import placement_of
from detectsched.lifecycle import Loop
from detectsched.queueing.queue import Queue
from detectsched.settings import Settings
from detectsched.telemetry import get_logger

log = get_logger(__name__)

_PAGE: Final = 10_000
"""Rows read at once, and put in order by queue: the longer, the fewer queues a script call has to do with."""


class Rebuilder(Loop):
    """Watches for a lost generation; one of several dispatchers takes the lock and rebuilds."""

    def __init__(self, queue: Queue, ledger: Ledger, settings: Settings, *, page: int = _PAGE) -> None:
        super().__init__(settings.scheduler.safety_tick_seconds)
        self._queue = queue
        self._ledger = ledger
        self._settings = settings
        self._page = page
        # A changed policy scores everything anew, once: two dispatchers that disagree must not rebuild in turn.
        self._check_policy = True

    async def run_once(self) -> int | None:
        """Rebuild if that is needed; return how many tasks were queued, None if nothing was to be done."""
        needed = await self._queue.rebuild.is_needed(self._settings.lanes, check_policy=self._check_policy)
        self._check_policy = False
        return await self._rebuild() if needed else None

    async def _rebuild(self) -> int | None:
        token = await self._queue.rebuild.begin()
        if token is None:
            return None
        began = monotonic()
        failpoints.hit("rebuild.after_begin")
        log.warning("rebuilding the queues from PostgreSQL")
        removed = await self._queue.rebuild.wipe(token, self._settings.lanes)
        failpoints.hit("rebuild.after_wipe")
        paused = {row.what: milliseconds(row.paused_at) for row in await pauses(self._ledger)}
        await self._queue.rebuild.set_paused(paused)
        queued = await self._requeue(token)
        failpoints.hit("rebuild.after_requeue")
        await self._queue.rebuild.open(token)
        failpoints.hit("rebuild.after_open")
        seconds = round(monotonic() - began, 3)
        log.warning("queues rebuilt", tasks=queued, keys_removed=removed, seconds=seconds)
        return queued

    async def _requeue(self, token: str) -> int:
        scripts = self._queue.rebuilding(token)
        queued = 0
        page = await open_page(self._ledger, after=0, limit=self._page)
        while page:
            now_ms = await self._queue.now_ms()
            placements = (placement_of(row, self._settings.scheduler, now_ms=now_ms) for row in page)
            # PostgreSQL looks for the next page while Redis takes this one: two machines, or two cores.
            async with asyncio.TaskGroup() as both:
                reading = both.create_task(open_page(self._ledger, after=page.last, limit=self._page))
                both.create_task(scripts.enqueue_all(placements))
            queued += len(page)
            page = reading.result()
        return queued
