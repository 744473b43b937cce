"""Keeps the statistics: counts what has ended, and forgets sums that are older than they are kept."""

from __future__ import annotations

from typing import Final

from detectsched.clock import monotonic
from detectsched.db import retention
from detectsched.db.connection import Ledger
from detectsched.db.statistics import count_due
from detectsched.lifecycle import Loop
from detectsched.settings import ReportSettings
from detectsched.telemetry import get_logger

log = get_logger(__name__)

_CHUNKS: Final = 20
"""Transactions of one turn; what is left is for the next one, which comes at once."""
_BETWEEN_PRUNINGS_SECONDS: Final = 600.0


class Statistician(Loop):
    """Any number may run; one counts at a time, and the others find that out at once and let it."""

    def __init__(self, ledger: Ledger, settings: ReportSettings) -> None:
        super().__init__(settings.count_seconds)
        self._ledger = ledger
        self._settings = settings
        self._prune_at = float("-inf")

    async def run_once(self) -> int:
        """Count what is due, and now and then prune; return how many tasks and reports were counted."""
        counted = 0
        for _ in range(_CHUNKS):
            count = await count_due(self._ledger, limit=self._settings.count_batch)
            counted += count or 0
            if count is None or count < self._settings.count_batch:
                break
        else:
            self.wake()
        await self._prune()
        return counted

    async def _prune(self) -> None:
        now = monotonic()
        if now < self._prune_at:
            return
        pruned = await retention.prune(self._ledger, self._settings)
        if any(pruned.values()):
            log.info("forgot what is older than it is kept", **pruned)
        # What one turn may remove is bounded: an old table is worked off turn by turn.
        is_over = all(count < retention.MOST_AT_ONCE for count in pruned.values())
        self._prune_at = now + _BETWEEN_PRUNINGS_SECONDS if is_over else now
