"""Compares the ledger with the queues, always: what one has and the other has not, and counters with a recount.

Each kind of difference has one repair, counted in a figure that should stay 0; each turn looks at one page of each.
"""

from __future__ import annotations

from typing import Final

from detectsched import failpoints
from detectsched.db.connection import Ledger
from detectsched.db.open_tasks import ended_among, open_among, open_since
from detectsched.dispatcher.placing import placement_of
from detectsched.lifecycle import Loop
from detectsched.queueing.queue import Queue
from detectsched.settings import SchedulerSettings
from detectsched.telemetry import get_logger

log = get_logger(__name__)

_PAGE: Final = 1000
_LOOKED_AT: Final = 300
"""Tasks and queues of a turn whose place in Redis is looked at."""
_MOST_OUT: Final = 1000
"""With more tasks out than this, counting them all in one script would keep the server from others."""
_PATIENCE_SECONDS: Final = 10.0
"""What has happened in this time may still be on its way from whoever did it."""


class Reconciler(Loop):
    """Walks open rows, tasks and queues page by page, and begins again at the end."""

    def __init__(
        self,
        queue: Queue,
        ledger: Ledger,
        settings: SchedulerSettings,
        lanes: tuple[str, ...],
        *,
        patience_seconds: float = _PATIENCE_SECONDS,
    ) -> None:
        super().__init__(settings.sweep_seconds)
        self._queue = queue
        self._ledger = ledger
        self._settings = settings
        self._lanes = lanes
        self._patience = patience_seconds
        self._after = 0
        self._task_cursor = 0
        self._queue_cursor = 0

    async def run_once(self) -> int:
        """Look at one page of each; return how much had to be put right."""
        repairs = {
            "unqueued": await self._queue_lost(),
            "ended": await self._withdraw_ended(),
            "places": await self._audit(),
        }
        for kind, count in repairs.items():
            if count:
                log.warning("put right what ledger and queues disagreed about", kind=kind, count=count)
                await self._queue.note_repairs(kind, count)
        return sum(repairs.values())

    async def _queue_lost(self) -> int:
        """Queue rows that Redis does not know: their API died between the commit and the queue."""
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
        return len(lost)

    async def _withdraw_ended(self) -> int:
        """Take tasks out of the queues that have ended: whoever ended them died before it could say so."""
        self._task_cursor, waiting, adrift = await self._queue.page_of_tasks(self._task_cursor, limit=_LOOKED_AT)
        if adrift:
            await self._rebuild("adrift", f"{adrift} tasks are said to be in a stream that does not have them")
            return 0
        ended = await ended_among(self._ledger, waiting, older_than_seconds=self._patience) if waiting else []
        if ended:
            await self._queue.scripts.withdraw(ended)
        return len(ended)

    async def _audit(self) -> int:
        """Compare counters with each other, and places in flight with the tasks that are out."""
        self._queue_cursor, queues = await self._queue.page_of_queues(self._queue_cursor, limit=_LOOKED_AT)
        found = await self._queue.scripts.audit(queues, lanes=self._lanes, max_out=_MOST_OUT)
        if found.alien:
            await self._rebuild("alien", f"the key {found.alien} is of another type")
        elif not found.counters_agree:
            await self._rebuild("counters", "the counters of waiting tasks do not agree")
        return found.repaired

    async def _rebuild(self, kind: str, reason: str) -> None:
        """Have the queues made anew: nothing less puts this right."""
        await self._queue.damaged(reason)
        await self._queue.note_repairs(kind, 1)
