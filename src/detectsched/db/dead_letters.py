"""Dead letters: tasks that were given up on. They stay in the task table, without limit.

A letter that was driven again (db/redrives.py) is history: it stays as it ended, and is listed no more.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlmodel import col, select

from detectsched.db.connection import Connection, Ledger
from detectsched.db.models import Task
from detectsched.task import TaskKind, TaskState


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """Which dead letters are meant; None means any. ``since`` and ``until`` bound when they died, until exclusively."""

    reason: str | None = None
    lane: str | None = None
    mac: str | None = None
    object: str | None = None
    kind: TaskKind | None = None
    since: datetime | None = None
    until: datetime | None = None

    def columns(self, tenant: str) -> list[Any]:
        """Return the parameters of `MATCHES`."""
        kind = None if self.kind is None else self.kind.value
        return [tenant, self.reason, self.lane, self.mac, self.object, kind, self.since, self.until]

    def document(self) -> dict[str, str]:
        """Return what is set, as JSON for the audit log."""
        said = {name: getattr(self, name) for name in ("reason", "lane", "mac", "object", "kind", "since", "until")}
        return {
            name: value.isoformat() if isinstance(value, datetime) else str(value)
            for name, value in said.items()
            if value is not None
        }


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A task that was given up on, and has not been driven again."""

    id: UUID
    kind: TaskKind
    lane: str
    mac: str | None
    object: str | None
    cost: float
    attempts: int
    reason: str
    detail: str
    created_at: datetime
    died_at: datetime
    redrive_of: UUID | None


@dataclass(frozen=True, slots=True)
class LetterGroup:
    """The dead letters of one reason."""

    reason: str
    count: int
    first_at: datetime
    last_at: datetime


MATCHES: Final = """
    t.tenant = $1 AND t.state = 'dead' AND ($2::text IS NULL OR t.error_reason = $2)
    AND ($3::text IS NULL OR t.lane = $3) AND ($4::text IS NULL OR t.mac = $4)
    AND ($5::text IS NULL OR t.object = $5) AND ($6::text IS NULL OR t.kind = $6)
    AND ($7::timestamptz IS NULL OR t.finished_at >= $7) AND ($8::timestamptz IS NULL OR t.finished_at < $8)
    AND NOT EXISTS (SELECT FROM task n WHERE n.redrive_of = t.id)
"""
"""Of a task ``t``, with the parameters of `LetterFilter.columns`."""

# ruff: noqa: S608 - the parts put together are constants of this file
_LIST: Final = f"""
SELECT t.id, t.kind, t.lane, t.mac, t.object, t.cost, t.attempts, coalesce(t.error_reason, 'unknown') AS reason,
    coalesce(t.error_detail, '') AS detail, t.created_at, t.finished_at AS died_at, t.redrive_of
FROM task t WHERE {MATCHES} AND ($9::timestamptz IS NULL OR (t.finished_at, t.id) < ($9, $10::uuid))
ORDER BY t.finished_at DESC, t.id DESC LIMIT $11
"""

_GROUPS: Final = f"""
SELECT coalesce(t.error_reason, 'unknown') AS reason, count(*) AS count, min(t.finished_at) AS first_at,
    max(t.finished_at) AS last_at
FROM task t WHERE {MATCHES} GROUP BY 1 ORDER BY 2 DESC, 1
"""

_COUNT: Final = f"SELECT count(*) AS count, now() AS at FROM task t WHERE {MATCHES}"


async def dead_letters(
    ledger: Ledger, tenant: str, wanted: LetterFilter, *, before: tuple[datetime, UUID] | None, limit: int
) -> list[DeadLetter]:
    """Return up to ``limit`` dead letters, the latest first, beginning after the position (died_at, id) given."""
    at, last = before or (None, None)
    async with ledger.connection() as connection:
        rows = await connection.fetch(_LIST, *wanted.columns(tenant), at, last, limit)
    return [
        DeadLetter(**{**dict(row), "id": UUID(str(row["id"])), "kind": TaskKind(row["kind"]), "redrive_of": _id(row)})
        for row in rows
    ]


async def letter_groups(ledger: Ledger, tenant: str, wanted: LetterFilter) -> list[LetterGroup]:
    """Return the dead letters by reason, the most frequent first."""
    async with ledger.connection() as connection:
        rows = await connection.fetch(_GROUPS, *wanted.columns(tenant))
    return [LetterGroup(**dict(row)) for row in rows]


async def count_letters(ledger: Ledger, tenant: str, wanted: LetterFilter) -> tuple[int, datetime]:
    """Return how many dead letters match, and the ledger's time of counting."""
    async with ledger.connection() as connection:
        row = await connection.fetchrow(_COUNT, *wanted.columns(tenant))
    return row["count"], row["at"]


async def begin_change(connection: Connection, tenant: str) -> None:
    """Have a transaction be the only one that re-drives or purges letters of a tenant, so that none is done twice."""
    await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('dead letters of ' || $1, 0))", tenant)


async def dead_letter_documents(ledger: Ledger, task_ids: Sequence[UUID]) -> list[str]:
    """Return the original's record, as JSON, of those of the given tasks that are dead."""
    query = select(Task).where(col(Task.id).in_(task_ids), Task.state == TaskState.DEAD.value)
    async with ledger.reading() as session:
        rows = (await session.exec(query)).all()
    return [_document(row) for row in rows]


def _id(row: Any) -> UUID | None:
    return None if row["redrive_of"] is None else UUID(str(row["redrive_of"]))


def _document(row: Task) -> str:
    record = {
        "task_id": str(row.id),
        "mac": row.mac or row.object,
        "task_type": row.kind,
        "error": row.error_detail,
        "requeue_count": row.attempts,
        "created_at": row.created_at.isoformat(),
        "dead_at": None if row.finished_at is None else row.finished_at.isoformat(),
    }
    return json.dumps(record, ensure_ascii=False)
