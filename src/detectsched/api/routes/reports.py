"""Reports from the hourly sums, as pages of JSON or whole, for spreadsheets."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response

from detectsched.api.auth import Operator, Reader
from detectsched.api.context import ApiContext, Context
from detectsched.api.export import Format, Table, documented, format_of
from detectsched.api.openapi import problems
from detectsched.api.report_rows import (
    TaskReportPage,
    TaskReportRow,
    WordReportPage,
    WordReportRow,
    columns_of,
    cursor_of,
    task_fields,
    word_fields,
)
from detectsched.api.reports import ReportFormat, ReportQuery, TaskReportQuery, TenantReportQuery, WordReportQuery
from detectsched.db import reports
from detectsched.db.reports import Wanted

router = APIRouter(prefix="/api/reports", tags=["reports"])

_ANSWERS: Final = documented(Format.CSV, Format.XLSX) | problems()


@router.get("/tasks", response_model=TaskReportPage, responses=_ANSWERS)
async def report_tasks(
    request: Request, context: Context, caller: Reader, query: Annotated[TaskReportQuery, Query()]
) -> Any:
    """Count what ended: tasks, hits, waits and run times, by time and by device, lane or state."""
    return await _report(request, context, query, query.ask(caller.tenant, context.settings), "tasks")


@router.get("/tenants", response_model=TaskReportPage, responses=_ANSWERS)
async def report_tenants(
    request: Request, context: Context, _caller: Operator, query: Annotated[TenantReportQuery, Query()]
) -> Any:
    """Count what ended, of every tenant: for those who run the platform."""
    return await _report(request, context, query, query.ask(context.settings), "tenants")


@router.get("/words", response_model=WordReportPage, responses=_ANSWERS)
async def report_words(
    request: Request, context: Context, caller: Reader, query: Annotated[WordReportQuery, Query()]
) -> Any:
    """Count what was found: tasks and hits, by time and by category, word or lane."""
    return await _report(request, context, query, query.ask(caller.tenant, context.settings), "words")


@dataclass(frozen=True, slots=True)
class _Source:
    rows: Callable[..., Any]
    stream: Callable[..., AsyncGenerator[Sequence[Any], None]]
    fields: Callable[[Wanted, Any], dict[str, Any]]
    row: type[TaskReportRow | WordReportRow]


_TASKS: Final = _Source(reports.task_rows, reports.task_stream, task_fields, TaskReportRow)
_WORDS: Final = _Source(reports.word_rows, reports.word_stream, word_fields, WordReportRow)


async def _report(
    request: Request, context: ApiContext, query: ReportQuery, wanted: Wanted, name: str
) -> TaskReportPage | WordReportPage | Response:
    source = _WORDS if name == "words" else _TASKS
    form = format_of(request, query.format, ReportFormat)
    if wanted.zone != "UTC":
        await reports.check_zone(context.ledger, wanted.zone)
    if form is Format.JSON:
        return await _page(context, source, wanted, query.limit)
    columns = columns_of(wanted, source.row)

    def cells(record: Any) -> list[Any]:
        fields = source.fields(wanted, record)
        return [fields[column] for column in columns]

    title = f"{name}-{wanted.since:%Y%m%dT%H}-{wanted.until:%Y%m%dT%H}"
    table = Table(title, columns, source.stream(context.ledger, wanted), cells)
    return await context.exports.answer(table, form, bom=query.bom)


async def _page(context: ApiContext, source: _Source, wanted: Wanted, limit: int) -> TaskReportPage | WordReportPage:
    found = await source.rows(context.ledger, wanted, limit=limit + 1)
    page = found[:limit]
    head: dict[str, Any] = {
        "since": wanted.since,
        "until": wanted.until,
        "zone": wanted.zone,
        "next_cursor": cursor_of(wanted, page[-1]) if len(found) > len(page) else None,
    }
    items = [source.fields(wanted, record) for record in page]
    if source.row is WordReportRow:
        return WordReportPage(**head, items=[WordReportRow(**item) for item in items])
    return TaskReportPage(**head, items=[TaskReportRow(**item) for item in items])
