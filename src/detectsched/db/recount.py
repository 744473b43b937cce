"""Counting again: whether the sums are what the ledger says, hour by hour, and mending them where they are not.

Hours of which ended tasks were removed since cannot be counted again; they are told, and left as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from detectsched.db.connection import Ledger
from detectsched.db.statistics import ADD, FACTS_OF_HOURS, HOURS_KEPT, SUMS, hold_sums

_SECONDS: Final = 3600.0
"""A day of a large system is read in one statement."""

_TABLES: Final = {
    "stat_hourly": ("of_hour", "tenant, hour, lane, state"),
    "stat_device": ("of_device", "tenant, hour, mac, lane, state"),
    "stat_word": ("of_word", "tenant, hour, category, word, lane"),
}


@dataclass(frozen=True, slots=True)
class Difference:
    """A row of sums that is not what was counted; None: there is no such row, or nothing to be counted in it."""

    table: str
    stored: dict[str, Any] | None
    counted: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Recount:
    """What a recount found: the first differences, how many there are, and hours that cannot be counted again."""

    differences: tuple[Difference, ...]
    different: int
    hours_removed: int


# ruff: noqa: S608 - the parts put together are constants of this file and its neighbour
_DIFFERENCES: Final = " UNION ALL ".join(
    f"""
    SELECT '{table}' AS name, to_jsonb(k) AS stored, to_jsonb(c) AS counted
    FROM (SELECT * FROM {table} s WHERE {HOURS_KEPT}) k FULL JOIN {source} c USING ({key})
    WHERE to_jsonb(k) IS DISTINCT FROM to_jsonb(c)
    """
    for table, (source, key) in _TABLES.items()
)
_COMPARE: Final = f"""
WITH {FACTS_OF_HOURS}, {SUMS}, different AS ({_DIFFERENCES})
SELECT *, count(*) OVER () AS different FROM different LIMIT $3
"""
_REMOVED: Final = "SELECT count(*) FROM stat_removed WHERE hour >= $1 AND hour < $2"
_FILL: Final = f"WITH {FACTS_OF_HOURS}, {SUMS}, {ADD} SELECT count(*) FROM fact"


async def compare(ledger: Ledger, since: datetime, until: datetime, *, show: int = 100) -> Recount:
    """Count everything again that ended from ``since`` until ``until`` (whole hours), and compare."""
    async with ledger.connection() as connection:
        rows = await connection.fetch(_COMPARE, since, until, max(1, show), timeout=_SECONDS)
        removed = await connection.fetchval(_REMOVED, since, until)
    return Recount(
        tuple(Difference(row["name"], row["stored"], row["counted"]) for row in rows[:show]),
        rows[0]["different"] if rows else 0,
        removed,
    )


async def repair(ledger: Ledger, since: datetime, until: datetime) -> None:
    """Make the sums of these hours what the ledger says, in one transaction; counting waits meanwhile."""
    async with ledger.transaction() as connection:
        await hold_sums(connection)
        for table in _TABLES:
            await connection.execute(f"DELETE FROM {table} s WHERE {HOURS_KEPT}", since, until, timeout=_SECONDS)
        await connection.fetchval(_FILL, since, until, timeout=_SECONDS)
