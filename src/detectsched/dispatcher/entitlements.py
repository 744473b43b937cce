"""Sees to it that the queues in which something is open know what they may have."""

from __future__ import annotations

from typing import Final

from detectsched.db.connection import Ledger
from detectsched.db.control import open_entitlements
from detectsched.lifecycle import Loop
from detectsched.queueing.queue import Queue
from detectsched.settings import Settings

_INTERVAL_SECONDS: Final = 30.0
_BATCH: Final = 500
"""Queues per turn."""


class EntitlementKeeper(Loop):
    """Says again what the ledger grants: an API may have died, or Redis been away, between a change and its telling.

    Each turn takes the next queues by name, so a round over Q queues takes Q ÷ 500 turns; saying what a queue knows
    already changes nothing.
    """

    def __init__(self, queue: Queue, ledger: Ledger, settings: Settings) -> None:
        super().__init__(_INTERVAL_SECONDS)
        self._queue = queue
        self._ledger = ledger
        self._default = settings.scheduler.device_in_flight
        self._after: tuple[str, str] | None = None

    async def run_once(self) -> int:
        """Tell the next queues; return how many."""
        found = await open_entitlements(self._ledger, None, after=self._after, limit=_BATCH)
        await self._queue.scripts.entitle(
            [(queue, lane, entitled.with_default_limit(self._default)) for queue, lane, entitled in found]
        )
        self._after = (str(found[-1][0]), found[-1][1]) if len(found) == _BATCH else None
        return len(found)
