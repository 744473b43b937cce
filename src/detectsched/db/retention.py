"""Forgetting sums and audit entries that are older than they are kept, by PostgreSQL's clock.

A process whose own clock is wrong must not forget what is still to be kept.
"""

from __future__ import annotations

from typing import Final

from detectsched.db.connection import Ledger
from detectsched.settings import ReportSettings

MOST_AT_ONCE: Final = 10_000
"""Rows of a table that one call removes."""


_PRUNE: Final = """
DELETE FROM {table} WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM {table} WHERE {column} < now() - make_interval(days => $1) LIMIT $2
))
"""


async def prune(ledger: Ledger, settings: ReportSettings) -> dict[str, int]:
    """Remove up to `MOST_AT_ONCE` rows of each table; return how many of each."""
    pruned = {
        "stat_device": await _prune(ledger, "stat_device", "hour", settings.keep_detail_days),
        "stat_word": await _prune(ledger, "stat_word", "hour", settings.keep_detail_days),
        "stat_hourly": await _prune(ledger, "stat_hourly", "hour", settings.keep_days),
        "stat_removed": await _prune(ledger, "stat_removed", "hour", settings.keep_days),
    }
    if settings.keep_audit_days:
        pruned["audit_log"] = await _prune(ledger, "audit_log", "at", settings.keep_audit_days)
    return pruned


async def _prune(ledger: Ledger, table: str, column: str, days: int) -> int:
    async with ledger.transaction() as connection:
        if table == "audit_log":
            # Without it the database refuses, whoever asks.
            await connection.execute("SET LOCAL detectsched.audit_retention = 'on'")
        answer = await connection.execute(_PRUNE.format(table=table, column=column), days, MOST_AT_ONCE)
    return int(str(answer).rsplit(" ", 1)[1])
