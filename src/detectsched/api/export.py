"""Exports: tables of any length as CSV, NDJSON or XLSX, chunk by chunk, in memory that does not grow with them."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from detectsched.api.spreadsheet import Cell, Workbook, csv_of
from detectsched.errors import StoreUnavailable, SystemOverloaded
from detectsched.settings import ReportSettings
from detectsched.telemetry import get_logger

log = get_logger(__name__)

_BOM: Final = "\ufeff".encode()
_PIECE: Final = 65_536
_PATIENCE_SECONDS: Final = 5.0
"""How long an export waits for its turn."""
_RETRY_SECONDS: Final = 30


class Format(StrEnum):
    """How a table is answered."""

    JSON = "json"
    """A page, for programs."""
    CSV = "csv"
    """All of it, for spreadsheets."""
    NDJSON = "ndjson"
    """All of it, one JSON document per line."""
    XLSX = "xlsx"
    """All of it, as an Excel workbook."""


MEDIA_TYPES: Final = {
    Format.JSON: "application/json",
    Format.CSV: "text/csv; charset=utf-8",
    Format.NDJSON: "application/x-ndjson",
    Format.XLSX: "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}


@dataclass(frozen=True, slots=True)
class Table:
    """What is exported: the names of the columns, and rows as they come, many at a time.

    ``records`` come from the database; ``row_of`` makes the cells of one, in a thread.
    """

    name: str
    columns: Sequence[str]
    records: AsyncGenerator[Sequence[Any], None]
    row_of: Callable[[Any], Sequence[Cell]]


def format_of(request: Request, asked: StrEnum | None, offered: type[StrEnum]) -> Format:
    """Return how to answer: as ``format=`` says, else the first of Accept that is offered, else JSON.

    ``offered`` are those of `Format` that the route has, as a type of its own: the OpenAPI document names no others.
    """
    if asked is not None:
        return Format(asked.value)
    formats = [Format(each.value) for each in offered]
    by_type = {MEDIA_TYPES[each].partition(";")[0]: each for each in formats}
    for part in request.headers.get("accept", "").split(","):
        found = by_type.get(part.partition(";")[0].strip().lower())
        if found is not None:
            return found
    return Format.JSON


def documented(*formats: Format) -> dict[int | str, dict[str, Any]]:
    """Return the documentation of the answers that are no JSON."""
    content = {
        MEDIA_TYPES[each].partition(";")[0]: {
            "schema": {"type": "string"} | ({"format": "binary"} if each is Format.XLSX else {})
        }
        for each in formats
    }
    return {200: {"content": content}}


class Exports:
    """Bounds how many exports run at once, and how long one may take: each holds a connection to PostgreSQL."""

    def __init__(self, settings: ReportSettings) -> None:
        self._settings = settings
        self._free = asyncio.Semaphore(settings.exports_at_once)

    async def answer(self, table: Table, form: Format, *, bom: bool = False) -> ExportResponse:
        """Return an answer whose first part is there, so that what goes wrong before it is still told as a problem.

        Raises:
            SystemOverloaded: too many others are being written.
            StoreUnavailable: PostgreSQL is away, or there is no room for the workbook.
        """
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await self._free.acquire()
        except TimeoutError:
            raise SystemOverloaded(
                f"{self._settings.exports_at_once} exports are being written, the most at a time: ask again later",
                retry_after=_RETRY_SECONDS,
            ) from None
        parts = self._parts(table, form, bom=bom)
        # Closed at any rate, it frees the place; one that was never begun has nothing to close.
        try:
            first = await anext(parts)
        except BaseException:
            await parts.aclose()
            raise
        return ExportResponse(first, parts, table.name, form, seconds=self._settings.export_seconds)

    async def _parts(self, table: Table, form: Format, *, bom: bool) -> AsyncGenerator[bytes, None]:
        try:
            async with aclosing(table.records):
                match form:
                    case Format.XLSX:
                        parts = _xlsx(table)
                    case Format.NDJSON:
                        parts = _ndjson(table)
                    case _:
                        parts = _csv(table, bom=bom)
                async with aclosing(parts):
                    async for part in parts:
                        yield part
        finally:
            self._free.release()


class ExportResponse(StreamingResponse):
    """Sends an export; what is left of it when the caller leaves, or reads too slowly, is given up."""

    def __init__(
        self, first: bytes, rest: AsyncGenerator[bytes, None], name: str, form: Format, *, seconds: float
    ) -> None:
        headers = {
            "Content-Disposition": f'attachment; filename="{name}.{form.value}"',
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "no-store",
        }
        super().__init__(_chained(first, rest), headers=headers, media_type=MEDIA_TYPES[form])
        self._rest = rest
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it.

        Raises:
            ClientDisconnect: it took too long; the connection is broken, so that nobody takes the part for the whole.
        """
        try:
            async with asyncio.timeout(self._seconds):
                await super().__call__(scope, receive, send)
        except TimeoutError:
            log.warning("an export was broken off: it took too long", path=scope["path"], seconds=self._seconds)
            raise ClientDisconnect from None
        finally:
            await self._rest.aclose()


async def _chained(first: bytes, rest: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    yield first
    async for part in rest:
        yield part


async def _csv(table: Table, *, bom: bool) -> AsyncGenerator[bytes, None]:
    head = csv_of([table.columns])
    is_first = True
    async for records in table.records:
        body = await asyncio.to_thread(_csv_body, table, records)
        yield (_BOM if bom else b"") + head + body if is_first else body
        is_first = False
    if is_first:
        yield (_BOM if bom else b"") + head


def _csv_body(table: Table, records: Sequence[Any]) -> bytes:
    return csv_of(table.row_of(record) for record in records)


async def _ndjson(table: Table) -> AsyncGenerator[bytes, None]:
    is_empty = True
    async for records in table.records:
        is_empty = False
        yield await asyncio.to_thread(_ndjson_body, table, records)
    if is_empty:
        yield b""


def _ndjson_body(table: Table, records: Sequence[Any]) -> bytes:
    documents = (dict(zip(table.columns, table.row_of(record), strict=True)) for record in records)
    return "".join(json.dumps(each, ensure_ascii=False, default=_as_text) + "\n" for each in documents).encode()


def _as_text(value: Any) -> str:
    return str(value.isoformat()).replace("+00:00", "Z")


async def _xlsx(table: Table) -> AsyncGenerator[bytes, None]:
    """Write the workbook into a file and yield its bytes: its directory of contents stands at its end."""
    try:
        with tempfile.TemporaryDirectory(prefix="detectsched-") as directory:
            path = Path(directory) / "table.xlsx"
            book = Workbook(path, table.columns)
            async for records in table.records:
                await asyncio.to_thread(_write, book, table, records)
            await asyncio.to_thread(book.close)
            with path.open("rb") as file:
                while piece := await asyncio.to_thread(file.read, _PIECE):
                    yield piece
    except OSError as error:
        raise StoreUnavailable(f"the workbook cannot be written: {error}") from error


def _write(book: Workbook, table: Table, records: Sequence[Any]) -> None:
    book.write(table.row_of(record) for record in records)
