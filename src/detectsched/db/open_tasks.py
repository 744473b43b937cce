"""Reading back the tasks that are open: what the queues are made anew from, and compared with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final
from uuid import UUID

from detectsched.db.accept import ENTITLED, FACTS, AcceptedTask, accepted_row
from detectsched.db.connection import Ledger


@dataclass(frozen=True, slots=True)
class OpenPage:
    """Open tasks of a range of sequences, queue by queue, and within a queue by sequence; ``last`` ends the range.

    They are made from their records one by one: whoever passes them on in small parts never holds all of them.
    """

    records: Sequence[Any]
    last: int

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[AcceptedTask]:
        return (accepted_row(record, is_new=False) for record in self.records)


# ruff: noqa: S608 - the parts put together are constants
_OPEN: Final = f"""
SELECT {FACTS} FROM task t {ENTITLED}
WHERE t.state IN ('queued', 'running') AND t.sequence > $1 ORDER BY t.sequence LIMIT $2
"""

_OPEN_SINCE: Final = f"""
SELECT {FACTS} FROM task t {ENTITLED}
WHERE t.state IN ('queued', 'running') AND t.sequence > $1
  AND coalesce(t.started_at, t.created_at) < now() - $2 * interval '1 second'
ORDER BY t.sequence LIMIT $3
"""

_OPEN_AMONG: Final = f"""
SELECT {FACTS} FROM task t {ENTITLED}
WHERE t.id = ANY ($1::uuid[]) AND t.state IN ('queued', 'running') ORDER BY t.sequence
"""


_ENDED_AMONG: Final = """
SELECT g.id FROM unnest($1::uuid[]) AS g (id) LEFT JOIN task t ON t.id = g.id
WHERE t.id IS NULL OR t.state NOT IN ('queued', 'running') AND t.finished_at < now() - $2 * interval '1 second'
"""


async def open_page(ledger: Ledger, *, after: int, limit: int) -> OpenPage:
    """Return the next tasks that are not terminal, beginning after the sequence given: what a rebuild is made from."""
    async with ledger.connection() as connection:
        records = await connection.fetch(_OPEN, after, limit)
    last = records[-1]["sequence"] if records else after
    records.sort(key=itemgetter("queue"))
    return OpenPage(records, last)


async def open_since(ledger: Ledger, *, after: int, older_than_seconds: float, limit: int) -> list[AcceptedTask]:
    """Return open tasks that nothing has happened to for a while, by sequence, beginning after the one given."""
    async with ledger.connection() as connection:
        rows = await connection.fetch(_OPEN_SINCE, after, older_than_seconds, limit)
    return [accepted_row(row, is_new=False) for row in rows]


async def open_among(ledger: Ledger, task_ids: Sequence[UUID]) -> list[AcceptedTask]:
    """Return those of the given tasks that are not terminal, by sequence."""
    async with ledger.connection() as connection:
        rows = await connection.fetch(_OPEN_AMONG, list(task_ids))
    return [accepted_row(row, is_new=False) for row in rows]


async def ended_among(ledger: Ledger, task_ids: Sequence[UUID], *, older_than_seconds: float) -> list[UUID]:
    """Return those of the given tasks that ended longer ago than that, or that the ledger does not have."""
    async with ledger.connection() as connection:
        rows = await connection.fetch(_ENDED_AMONG, list(task_ids), older_than_seconds)
    return [UUID(str(row["id"])) for row in rows]
