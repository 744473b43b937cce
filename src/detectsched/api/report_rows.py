"""Reports: what callers are shown."""

from __future__ import annotations

import base64
import json
from datetime import date, datetime
from typing import Any, Final

from detectsched.api.schemas import ResponseModel
from detectsched.db.histogram import quantile
from detectsched.db.reports import Order, Period, Wanted

_SHARES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


class _Row(ResponseModel):
    at: datetime | None
    """When the hour or the day begins; null for all of the time together."""
    day: date | None
    """The day, by days."""


class TaskReportRow(_Row):
    """What ended in an hour, a day, or all of the time; seconds are of tasks that their runner ended."""

    tenant: str | None = None
    """In reports about tenants."""
    mac: str | None = None
    """The device, where rows are kept apart by device; empty for what belongs to none."""
    lane: str | None = None
    """Where rows are kept apart by lane; empty for what devices reported."""
    state: str | None = None
    """Where rows are kept apart by state."""
    tasks: int
    with_hits: int
    """Tasks in which something was found."""
    hits: int
    timed: int
    """Tasks that their runner ended."""
    wait_mean: float | None
    """Seconds from when a task could have started to the start that ended it."""
    wait_p50: float | None
    wait_p95: float | None
    wait_p99: float | None
    run_mean: float | None
    """Seconds from that start to the end."""
    run_p50: float | None
    run_p95: float | None
    run_p99: float | None


class WordReportRow(_Row):
    """How often words were found in an hour, a day, or all of the time."""

    category: str | None = None
    """Where rows are kept apart by category."""
    word: str | None = None
    """Where rows are kept apart by word."""
    lane: str | None = None
    """Where rows are kept apart by lane; empty for what devices reported."""
    tasks: int
    """Tasks in which they were found; kept apart by word or category, one that has several counts in each row."""
    hits: int


class TaskReportPage(ResponseModel):
    """Rows of a report."""

    since: datetime
    until: datetime
    """The end, exclusively."""
    zone: str
    items: list[TaskReportRow]
    next_cursor: str | None
    """Give it as `cursor` to get the next page; null on the last."""


class WordReportPage(ResponseModel):
    """Rows of a report."""

    since: datetime
    until: datetime
    """The end, exclusively."""
    zone: str
    items: list[WordReportRow]
    next_cursor: str | None
    """Give it as `cursor` to get the next page; null on the last."""


def cursor_of(wanted: Wanted, record: Any) -> str | None:
    """Return where the next page begins; None where pages do not go by time."""
    if wanted.order is not Order.TIME:
        return None
    at = None if record["at"] is None else record["at"].isoformat()
    key = json.dumps([at, *(record[name] for name in wanted.group)])
    return base64.urlsafe_b64encode(key.encode()).decode()


def task_fields(wanted: Wanted, record: Any) -> dict[str, Any]:
    """Return the fields of a `TaskReportRow`."""
    fields = _times(wanted, record)
    fields |= {name: record[name] for name in wanted.group}
    fields |= {name: record[name] for name in ("tasks", "with_hits", "hits", "timed")}
    for name, total, counts in (("wait", "wait_us", "waits"), ("run", "run_us", "runs")):
        mean = record[total] / record["timed"] / 1e6 if record["timed"] else None
        fields[f"{name}_mean"] = _seconds(mean)
        fields |= {f"{name}_{word}": _seconds(quantile(record[counts], share)) for word, share in _SHARES.items()}
    return fields


def word_fields(wanted: Wanted, record: Any) -> dict[str, Any]:
    """Return the fields of a `WordReportRow`."""
    named = {name: record[name] for name in wanted.group}
    return _times(wanted, record) | named | {"tasks": record["tasks"], "hits": record["hits"]}


def columns_of(wanted: Wanted, row: type[TaskReportRow | WordReportRow]) -> list[str]:
    """Return the columns of a table: those that say something."""
    shown = set(wanted.group)
    if wanted.period is not Period.TOTAL:
        shown.add("at")
    if wanted.period is Period.DAY:
        shown.add("day")
    keys = {"at", "day", "tenant", "mac", "lane", "state", "category", "word"}
    return [name for name in row.model_fields if name in shown or name not in keys]


def _times(wanted: Wanted, record: Any) -> dict[str, Any]:
    return {"at": record["at"], "day": record["day"] if wanted.period is Period.DAY else None}


def _seconds(value: float | None) -> float | None:
    """Return a duration with as many digits as it can have."""
    return None if value is None else float(f"{value:.4g}")
