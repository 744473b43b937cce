"""Reports from the hourly sums: by time, and by whatever else the sums are kept by."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

import asyncpg

from detectsched.db.connection import Ledger
from detectsched.db.streams import chunks
from detectsched.errors import InvalidRequest


class Period(StrEnum):
    """What the rows of a report are about, in time."""

    HOUR = "hour"
    """Hours, of UTC."""
    DAY = "day"
    """Days, of a time zone."""
    TOTAL = "total"
    """All of the time together."""


class Order(StrEnum):
    """Which rows come first."""

    TIME = "time"
    """The earliest."""
    TASKS = "tasks"
    """Those of most tasks."""
    HITS = "hits"
    """Those of most hits."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a report is to show.

    ``tenant`` None: all tenants. ``group`` holds names of columns, in order; ``filters`` what columns must be.
    ``since`` and ``until`` are whole hours. ``after`` is the key of the last row of the page before: its time (None
    for totals) and its groups. Without ``quantiles`` histograms are not added up, and come out empty.
    """

    tenant: str | None
    period: Period
    zone: str
    since: datetime
    until: datetime
    group: tuple[str, ...]
    filters: dict[str, str]
    order: Order = Order.TIME
    quantiles: bool = True
    after: tuple[datetime | None, tuple[str, ...]] | None = None


_MEASURES: Final = """
    sum(tasks)::bigint AS tasks, sum(with_hits)::bigint AS with_hits, sum(hits)::bigint AS hits,
    sum(timed)::bigint AS timed, sum(wait_us)::bigint AS wait_us, sum(run_us)::bigint AS run_us,
"""
_HISTOGRAMS: Final = "histogram_sum(waits) AS waits, histogram_sum(runs) AS runs"
_NO_HISTOGRAMS: Final = "'{}'::bigint[] AS waits, '{}'::bigint[] AS runs"
_WORD_MEASURES: Final = "sum(tasks)::bigint AS tasks, sum(hits)::bigint AS hits"

_TIMES: Final = {
    Period.HOUR: "s.hour",
    Period.DAY: "date_trunc('day', s.hour, $4)",
    Period.TOTAL: "NULL::timestamptz",
}
_COLUMNS: Final = frozenset({"tenant", "mac", "lane", "state", "category", "word"})


async def check_zone(ledger: Ledger, zone: str) -> None:
    """Raise `InvalidRequest` if PostgreSQL does not know a time zone."""
    async with ledger.connection() as connection:
        try:
            await connection.fetchval("SELECT date_trunc('day', now(), $1)", zone)
        except asyncpg.InvalidParameterValueError:
            raise InvalidRequest(
                f"there is no time zone {zone[:64]!r}; use a name as Asia/Shanghai, or UTC", field="zone"
            ) from None


async def task_rows(ledger: Ledger, wanted: Wanted, *, limit: int) -> Sequence[Any]:
    """Return up to ``limit`` rows about tasks: at, day, the groups, and the measures."""
    query, arguments = _task_query(wanted, limit)
    async with ledger.connection() as connection:
        rows: Sequence[Any] = await connection.fetch(query, *arguments)
    return rows


async def word_rows(ledger: Ledger, wanted: Wanted, *, limit: int) -> Sequence[Any]:
    """Return up to ``limit`` rows about words: at, day, the groups, tasks and hits."""
    query, arguments = _word_query(wanted, limit)
    async with ledger.connection() as connection:
        rows: Sequence[Any] = await connection.fetch(query, *arguments)
    return rows


def task_stream(ledger: Ledger, wanted: Wanted) -> AsyncGenerator[Sequence[Any], None]:
    """Yield all rows about tasks, many at a time."""
    query, arguments = _task_query(wanted, None)
    return chunks(ledger, query, *arguments)


def word_stream(ledger: Ledger, wanted: Wanted) -> AsyncGenerator[Sequence[Any], None]:
    """Yield all rows about words, many at a time."""
    query, arguments = _word_query(wanted, None)
    return chunks(ledger, query, *arguments)


def _task_query(wanted: Wanted, limit: int | None) -> tuple[str, list[Any]]:
    by_device = "mac" in (*wanted.group, *wanted.filters)
    measures = _MEASURES + (_HISTOGRAMS if wanted.quantiles else _NO_HISTOGRAMS)
    return _query(wanted, "stat_device" if by_device else "stat_hourly", measures, "true", limit)


def _word_query(wanted: Wanted, limit: int | None) -> tuple[str, list[Any]]:
    # A task in which two words of a category were found counts once for the category.
    by_word = "word" in (*wanted.group, *wanted.filters)
    return _query(wanted, "stat_word", _WORD_MEASURES, "s.word <> ''" if by_word else "s.word = ''", limit)


def _query(wanted: Wanted, table: str, measures: str, which: str, limit: int | None) -> tuple[str, list[Any]]:
    # Names of columns become part of the statement; they come from enumerations, and are looked at once more here.
    if not _COLUMNS.issuperset((*wanted.group, *wanted.filters)):
        raise ValueError(f"no such column among {wanted.group} and {sorted(wanted.filters)}")
    arguments: list[Any] = [wanted.tenant, wanted.since, wanted.until, wanted.zone]

    def parameter(value: Any) -> str:
        arguments.append(value)
        return f"${len(arguments)}"

    conditions = [which, "($1::text IS NULL OR s.tenant = $1)", "s.hour >= $2", "s.hour < $3", "$4::text IS NOT NULL"]
    if wanted.tenant is not None:
        conditions[1] = "s.tenant = $1"
    conditions += [f"s.{name} = {parameter(value)}" for name, value in wanted.filters.items()]
    time = _TIMES[wanted.period]
    groups = "".join(f", s.{name}" for name in wanted.group)
    key = ", ".join(f"r.{name}" for name in (*(("at",) if wanted.period is not Period.TOTAL else ()), *wanted.group))
    outer = ""
    if wanted.after is not None and key:
        at, names = wanted.after
        values = [parameter(at) + "::timestamptz"] if wanted.period is not Period.TOTAL else []
        values += [parameter(name) + "::text" for name in names]
        outer = f"WHERE ({key}) > ({', '.join(values)})"
    first = "" if wanted.order is Order.TIME else f"r.{wanted.order.value} DESC, "
    ordered = f"ORDER BY {first}{key}".rstrip(", ") if first or key else ""
    # ruff: noqa: S608 - what is put together is of this file; values are parameters
    query = f"""
        SELECT r.*, (r.at AT TIME ZONE $4)::date AS day FROM (
            SELECT {time} AS at{groups}, {measures} FROM {table} s WHERE {" AND ".join(conditions)}
            GROUP BY {time}{groups} HAVING count(*) > 0
        ) r {outer} {ordered} {"" if limit is None else f"LIMIT {parameter(limit)}"}
    """
    return query, arguments
