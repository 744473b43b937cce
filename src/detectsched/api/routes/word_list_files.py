"""Word lists from files, and as files."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from detectsched.api import list_import
from detectsched.api.auth import Admin, Reader
from detectsched.api.bodies import media_type_of
from detectsched.api.context import Context
from detectsched.api.control import actor_of
from detectsched.api.export import Format, Table, documented
from detectsched.api.list_import import FileFormat, Imported, Remarks
from detectsched.api.list_states import DraftState, draft_state
from detectsched.api.openapi import file_body, problems
from detectsched.api.problems import FieldError, InvalidFields
from detectsched.api.routes.word_list_versions import CURRENT, DRAFT, State, existing
from detectsched.api.routes.word_lists import Named
from detectsched.api.schemas import ResponseModel
from detectsched.db import list_drafts, list_versions
from detectsched.db.list_drafts import DraftEdit
from detectsched.db.word_lists import word_of
from detectsched.errors import UnsupportedMedia

router = APIRouter(prefix="/api/word-lists", tags=["word lists"])

_FORMATS: Final = {
    "text/csv": FileFormat.CSV,
    "text/plain": FileFormat.TXT,
    "application/octet-stream": FileFormat.CSV,
}
_MOST_ERRORS: Final = 20
"""Lines told in a refusal; a dry run tells more."""


class ImportMode(StrEnum):
    """What becomes of the words that the draft has."""

    REPLACE = "replace"
    """They go: the draft holds what the file holds."""
    ADD = "add"
    """They stay; words that the file has as well are replaced."""


class ImportQuery(BaseModel):
    """How a file is read, and what is done with it."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    format: FileFormat | None = None
    """`csv` or `txt`; without it as Content-Type says: text/csv or text/plain."""
    mode: ImportMode = ImportMode.REPLACE
    """Whether the draft's words are replaced, or added to."""
    dry_run: bool = False
    """Only say what the file holds and what is wrong with it."""
    skip_errors: bool = False
    """Take the good lines though others are wrong; without it nothing is taken then."""
    category: Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]{1,64}$")] = "default"
    """Of words for which the file says none."""
    level: Annotated[int, Field(ge=1, le=100)] = 1
    """The same."""
    revision: Annotated[int, Field(ge=0)] | None = None
    """The revision of the draft that was seen, 0 for none; if it has another, nothing is changed."""


class ExportQuery(BaseModel):
    """What is exported."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    version: State = CURRENT
    """A version's number, `current` or `draft`."""
    bom: bool = False
    """Whether the CSV begins with a byte order mark, by which Excel knows UTF-8."""


class LineRemark(ResponseModel):
    """Something about a line of a file."""

    line: int
    """From 1; a cell that spans lines counts where its row begins."""
    detail: str


class ImportReport(ResponseModel):
    """What a file holds, and what became of it."""

    lines: int
    """Lines with words, or without; a header does not count."""
    blank: int
    words: int
    """Words that can be taken, each once."""
    error_count: int
    errors: list[LineRemark]
    """The first hundred lines that cannot be taken."""
    warning_count: int
    warnings: list[LineRemark]
    """The first hundred lines that are likely mistakes: twice there, one character, or a word that every text has."""
    draft: DraftState | None
    """The draft that was made of it; null for a dry run."""


@router.post(
    "/{list_id}/import", responses=problems(404, 409, 413, 415), openapi_extra=file_body("text/csv", "text/plain")
)
async def import_word_list(
    list_id: Named, request: Request, context: Context, caller: Admin, query: Annotated[ImportQuery, Query()]
) -> ImportReport:
    """Read a CSV or a text file into the draft of a word list; with `dry_run` only say what it holds.

    A file with wrong lines is refused, and each is told, unless `skip_errors` is set. Nothing is published.
    """
    form = query.format or _FORMATS.get(media_type_of(request))
    if form is None:
        raise UnsupportedMedia("send the file as text/csv or text/plain, and say so in Content-Type")
    data = await request.body()
    found = await asyncio.to_thread(list_import.read, data, form, category=query.category, level=query.level)
    if query.dry_run:
        return _report(found, None)
    if found.errors.count and not query.skip_errors:
        raise InvalidFields(_told(found.errors))
    edit = DraftEdit(replace=query.mode is ImportMode.REPLACE, add=found.words, seen=query.revision)
    row = await list_drafts.edit(context.ledger, caller.tenant, list_id, edit, by=actor_of(caller))
    return _report(found, draft_state(row))


@router.get(
    "/{list_id}/export", responses=documented(Format.CSV) | problems(404), response_class=Response, response_model=None
)
async def export_word_list(
    list_id: Named, context: Context, caller: Reader, query: Annotated[ExportQuery, Query()]
) -> Response:
    """Get the words of a word list as CSV, which can be imported again; no cell of it is taken for a formula."""
    number = await existing(context, caller.tenant, list_id, query.version)
    records = list_versions.words_of(context.ledger, caller.tenant, list_id, number)
    name = f"{list_id}-{DRAFT if number == list_versions.DRAFT else f'v{max(number, 0)}'}"
    table = Table(name, list_import.COLUMNS, records, _cells)
    return await context.exports.answer(table, Format.CSV, bom=query.bom)


def _cells(record: Any) -> list[Any]:
    return list_import.cells_of(word_of(record))


def _report(found: Imported, draft: DraftState | None) -> ImportReport:
    return ImportReport(
        lines=found.lines,
        blank=found.blank,
        words=len(found.words),
        error_count=found.errors.count,
        errors=[LineRemark.model_validate(remark) for remark in found.errors.told],
        warning_count=found.warnings.count,
        warnings=[LineRemark.model_validate(remark) for remark in found.warnings.told],
        draft=draft,
    )


def _told(errors: Remarks) -> list[FieldError]:
    told = [FieldError(field=f"line {one.line}", detail=one.detail) for one in errors.told[:_MOST_ERRORS]]
    if errors.count > len(told):
        more = f"{errors.count - len(told)} more lines are wrong: see a hundred with dry_run=true"
        told.append(FieldError(field="", detail=f"{more}, or take the good ones with skip_errors=true"))
    return told
