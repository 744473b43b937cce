"""Detections that devices made by themselves and report: storing each once, and reading them back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import any_, literal
from sqlmodel import col, select

from detectsched.db.connection import Ledger
from detectsched.db.models import Report


@dataclass(frozen=True, slots=True)
class ReportedHit:
    """A word that a device found, and how often."""

    word: str
    category: str
    level: int
    count: int


@dataclass(frozen=True, slots=True)
class NewReport:
    """A report to be stored; ``request_hash`` tells it from another one under the same id, ``extra`` is kept as sent.

    ``detected_at`` is what it is counted under; ``clock_was_wrong`` says that the device gave another time.
    """

    report_id: str
    mac: str
    kind: str
    detected_at: datetime
    clock_was_wrong: bool
    hits: tuple[ReportedHit, ...]
    request_hash: bytes
    extra: dict[str, Any]


@dataclass(frozen=True, slots=True)
class StoredReport:
    """What is stored under an id; ``is_new`` is False when it was before."""

    report_id: str
    detected_at: datetime
    clock_was_wrong: bool
    created_at: datetime
    request_hash: bytes
    is_new: bool


@dataclass(frozen=True, slots=True)
class ReportFilter:
    """Which reports to list; None means any. ``before`` is the last number of the page before."""

    mac: str | None = None
    kind: str | None = None
    word: str | None = None
    category: str | None = None
    min_level: int | None = None
    has_hits: bool | None = None
    since: datetime | None = None
    until: datetime | None = None
    before: int | None = None


_STORE: Final = """
WITH given AS (
    SELECT * FROM unnest($2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::bool[], $7::int[], $8::int[],
                         $9::text[], $10::text[], $11::bytea[], $12::text[])
    WITH ORDINALITY AS g (report_id, mac, kind, detected_at, wrong, hits, level, words, categories, hash, body, place)
), seen AS (
    -- A device's row is touched once a minute, not once a report.
    INSERT INTO device (tenant, mac)
    SELECT DISTINCT $1, g.mac FROM given g
    WHERE NOT EXISTS (SELECT FROM device d WHERE d.tenant = $1 AND d.mac = g.mac
                      AND d.last_seen_at > now() - interval '1 minute')
    ORDER BY 2
    ON CONFLICT (tenant, mac) DO UPDATE SET last_seen_at = now()
), stored AS (
    INSERT INTO report (tenant, report_id, mac, kind, detected_at, clock_was_wrong, hit_count, top_level, words,
                        categories, request_hash, body)
    SELECT $1, g.report_id, g.mac, g.kind, g.detected_at, g.wrong, g.hits, g.level,
           ARRAY(SELECT jsonb_array_elements_text(g.words::jsonb)),
           ARRAY(SELECT jsonb_array_elements_text(g.categories::jsonb)), g.hash, g.body::jsonb
    FROM given g ORDER BY g.place
    ON CONFLICT (tenant, report_id) DO NOTHING
    RETURNING id, report_id, detected_at, clock_was_wrong, created_at, request_hash
), due AS (
    INSERT INTO stat_due (report_id) SELECT id FROM stored
)
SELECT * FROM stored
"""

_BY_ID: Final = """
SELECT report_id, detected_at, clock_was_wrong, created_at, request_hash
FROM report WHERE tenant = $1 AND report_id = ANY ($2::text[])
"""


async def store(ledger: Ledger, tenant: str, reports: Sequence[NewReport]) -> list[StoredReport]:
    """Commit reports in the order given; a known id yields what is stored under it.

    Of one id that comes several times the first is stored; the others are told as not new.

    Raises:
        StoreUnavailable: nothing was committed, or nobody knows; the same call may be made again.
    """
    async with ledger.connection() as connection:
        rows = await connection.fetch(_STORE, tenant, *_columns(reports))
        new = {row["report_id"]: _stored(row, is_new=True) for row in rows}
        # What the insert stood back for is committed by now: it waited for whoever was first.
        known = [report.report_id for report in reports if report.report_id not in new]
        earlier = await connection.fetch(_BY_ID, tenant, known) if known else []
    found = {row["report_id"]: _stored(row, is_new=False) for row in earlier}
    # Taken out as they are given out: a repeat within the batch is not new.
    answers: list[StoredReport] = []
    for report in reports:
        first = new.pop(report.report_id, None)
        if first is not None:
            found[report.report_id] = _stored(asdict(first), is_new=False)
        answers.append(first or found[report.report_id])
    return answers


async def list_reports(ledger: Ledger, tenant: str, wanted: ReportFilter, *, limit: int) -> Sequence[Report]:
    """Return up to ``limit`` reports, the latest arrival first."""
    query = select(Report).where(Report.tenant == tenant).order_by(col(Report.id).desc()).limit(limit)
    if wanted.mac is not None:
        query = query.where(Report.mac == wanted.mac)
    if wanted.kind is not None:
        query = query.where(Report.kind == wanted.kind)
    if wanted.word is not None:
        query = query.where(literal(wanted.word) == any_(col(Report.words)))
    if wanted.category is not None:
        query = query.where(literal(wanted.category) == any_(col(Report.categories)))
    if wanted.min_level is not None:
        query = query.where(col(Report.top_level) >= wanted.min_level)
    if wanted.has_hits is not None:
        query = query.where(col(Report.hit_count) > 0 if wanted.has_hits else col(Report.hit_count) == 0)
    if wanted.since is not None:
        query = query.where(col(Report.detected_at) >= wanted.since)
    if wanted.until is not None:
        query = query.where(col(Report.detected_at) < wanted.until)
    if wanted.before is not None:
        query = query.where(col(Report.id) < wanted.before)
    async with ledger.reading() as session:
        return (await session.exec(query)).all()


def _columns(reports: Sequence[NewReport]) -> list[list[Any]]:
    return [
        [report.report_id for report in reports],
        [report.mac for report in reports],
        [report.kind for report in reports],
        [report.detected_at for report in reports],
        [report.clock_was_wrong for report in reports],
        [sum(hit.count for hit in report.hits) for report in reports],
        [max((hit.level for hit in report.hits), default=0) for report in reports],
        [json.dumps(sorted({hit.word for hit in report.hits})) for report in reports],
        [json.dumps(sorted({hit.category for hit in report.hits})) for report in reports],
        [report.request_hash for report in reports],
        [json.dumps({**report.extra, "hits": [asdict(hit) for hit in report.hits]}) for report in reports],
    ]


def _stored(row: Any, *, is_new: bool) -> StoredReport:
    return StoredReport(
        row["report_id"],
        row["detected_at"],
        row["clock_was_wrong"],
        row["created_at"],
        row["request_hash"],
        is_new=is_new,
    )
