"""Reading the audit log: page by page, or whole."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from detectsched.db.connection import Ledger
from detectsched.db.streams import chunks

PLATFORM: Final = ""
"""The tenant of entries that concern all: lanes, runners, shares of tenants."""


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which entries; None means any. ``before`` is the position (at, id) of the last one of the page before."""

    actor: str | None = None
    action: str | None = None
    subject: str | None = None
    request_id: str | None = None
    mac: str | None = None
    object: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    before: tuple[datetime, int] | None = None


_READ: Final = """
SELECT id, at, actor, action, subject, outcome, request_id, detail FROM audit_log
WHERE tenant = $1 AND ($2::text IS NULL OR actor = $2) AND ($3::text IS NULL OR action = $3)
  AND ($4::text IS NULL OR subject = $4) AND ($5::text IS NULL OR request_id = $5)
  AND ($6::text IS NULL OR detail ->> 'mac' = $6) AND ($7::text IS NULL OR detail ->> 'object' = $7)
  AND ($8::timestamptz IS NULL OR at >= $8) AND ($9::timestamptz IS NULL OR at < $9)
  AND ($10::timestamptz IS NULL OR (at, id) < ($10, $11::bigint))
ORDER BY at DESC, id DESC
"""

_PAGE: Final = f"{_READ} LIMIT $12"


async def entries(ledger: Ledger, tenant: str, wanted: AuditFilter, *, limit: int) -> Sequence[Any]:
    """Return up to ``limit`` entries, the latest first."""
    async with ledger.connection() as connection:
        rows: Sequence[Any] = await connection.fetch(_PAGE, *_columns(tenant, wanted), limit)
    return rows


def all_entries(ledger: Ledger, tenant: str, wanted: AuditFilter) -> AsyncGenerator[Sequence[Any], None]:
    """Yield all entries, the latest first, many at a time."""
    return chunks(ledger, _READ, *_columns(tenant, wanted))


def _columns(tenant: str, wanted: AuditFilter) -> list[Any]:
    at, last = wanted.before or (None, None)
    said = [wanted.actor, wanted.action, wanted.subject, wanted.request_id, wanted.mac, wanted.object]
    return [tenant, *said, wanted.since, wanted.until, at, last]
