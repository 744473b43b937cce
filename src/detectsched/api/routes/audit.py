"""The audit log: who did what to what, and what followed from hits."""

from __future__ import annotations

import base64
import binascii
import struct
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from detectsched.api.auth import Admin, Operator
from detectsched.api.context import ApiContext, Context
from detectsched.api.cursors import micros_of, time_at
from detectsched.api.export import Format, Table, documented, format_of
from detectsched.api.fields import Mac, ObjectName
from detectsched.api.moments import Moment
from detectsched.api.openapi import problems
from detectsched.api.schemas import ResponseModel
from detectsched.db import audit_reads
from detectsched.db.audit_reads import AuditFilter
from detectsched.errors import InvalidRequest
from detectsched.task import normalise_mac, normalise_object

router = APIRouter(prefix="/api/audit", tags=["audit"])

_ANSWERS: Final = documented(Format.CSV, Format.NDJSON) | problems()
_COLUMNS: Final = ("id", "at", "actor", "action", "subject", "outcome", "request_id", "detail")
_POSITION: Final = struct.Struct(">qq")

_Text = Annotated[str, StringConstraints(min_length=1, max_length=400, pattern=r"^[^\x00]+$")]


class AuditFormat(StrEnum):
    """How the audit log is answered."""

    JSON = "json"
    """A page, for programs."""
    CSV = "csv"
    """All of it, for spreadsheets."""
    NDJSON = "ndjson"
    """All of it, one JSON document per line."""


class AuditQuery(BaseModel):
    """Which entries; a misspelt filter is refused, since it would show everything."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    actor: _Text | None = None
    """Only what this one did, as in `key k3y…`."""
    action: _Text | None = None
    """Only this, as in `pause`."""
    subject: _Text | None = None
    """Only what was done to this."""
    request_id: _Text | None = None
    """Only what came of this request."""
    mac: Mac | None = None
    """Only hits in what this device sent, in any usual spelling of its MAC address."""
    object: ObjectName | None = None
    """Only hits in what was about this object."""
    since: Moment | None = None
    """Only what was done then or later."""
    until: Moment | None = None
    """Only what was done before then."""
    format: AuditFormat | None = None
    """How to answer; without it as Accept says, else a page of JSON."""
    bom: bool = False
    """Begin CSV with a byte order mark, by which Excel knows that it is UTF-8."""
    cursor: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{22}==$")] | None = None
    """Where to go on: the `next_cursor` of the page before."""
    limit: Annotated[int, Field(ge=1, le=500)] = 50
    """Most entries on a page of JSON; the other formats give all."""


class AuditEntry(ResponseModel):
    """One thing that was done."""

    id: int
    at: datetime
    actor: str
    action: str
    subject: str
    outcome: str
    request_id: str | None
    """The `X-Request-Id` of the request that it was done by."""
    detail: dict[str, Any]


class AuditPage(ResponseModel):
    """Entries of the audit log, the latest first."""

    items: list[AuditEntry]
    next_cursor: str | None
    """Give it as `cursor` to get the next page; null on the last."""


@router.get("", response_model=AuditPage, responses=_ANSWERS)
async def read_audit(request: Request, context: Context, caller: Admin, query: Annotated[AuditQuery, Query()]) -> Any:
    """Read the audit log of the caller's tenant, the latest first."""
    return await _answer(request, context, query, caller.tenant, "audit")


@router.get("/platform", response_model=AuditPage, responses=_ANSWERS)
async def read_platform_audit(
    request: Request, context: Context, _caller: Operator, query: Annotated[AuditQuery, Query()]
) -> Any:
    """Read what was done to what all tenants share: lanes and runners."""
    return await _answer(request, context, query, audit_reads.PLATFORM, "audit-platform")


async def _answer(request: Request, context: ApiContext, query: AuditQuery, tenant: str, name: str) -> Any:
    if query.since is not None and query.until is not None and query.since >= query.until:
        raise InvalidRequest("since is not before until: nothing can be between them", field="since")
    wanted = AuditFilter(
        actor=query.actor,
        action=query.action,
        subject=query.subject,
        request_id=query.request_id,
        mac=None if query.mac is None else normalise_mac(query.mac),
        object=None if query.object is None else normalise_object(query.object),
        since=query.since,
        until=query.until,
        before=None if query.cursor is None else _position_of(query.cursor),
    )
    form = format_of(request, query.format, AuditFormat)
    if form is not Format.JSON:
        table = Table(name, _COLUMNS, audit_reads.all_entries(context.ledger, tenant, wanted), tuple)
        return await context.exports.answer(table, form, bom=query.bom)
    found = await audit_reads.entries(context.ledger, tenant, wanted, limit=query.limit + 1)
    page = found[: query.limit]
    return AuditPage(
        items=[AuditEntry(**dict(row)) for row in page],
        next_cursor=_cursor_of(page[-1]) if len(found) > len(page) else None,
    )


def _cursor_of(row: Any) -> str:
    return base64.urlsafe_b64encode(_POSITION.pack(micros_of(row["at"]), row["id"])).decode()


def _position_of(cursor: str) -> tuple[datetime, int]:
    try:
        micros, number = _POSITION.unpack(base64.b64decode(cursor, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, struct.error):
        raise InvalidRequest("this is no cursor: use the next_cursor of a page", field="cursor") from None
    return time_at(micros), int(number)
