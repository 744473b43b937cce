"""Devices that detect by themselves report what they found, one by one or many at once; and what they reported."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Annotated, Final, TypeAlias

import msgspec
from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from detectsched.api.auth import Reader, Submitter
from detectsched.api.bodies import media_type_of, parse_json
from detectsched.api.context import ApiContext, Context
from detectsched.api.detections import (
    Category,
    DetectionAnswer,
    DetectionBatchOutcome,
    DetectionKind,
    DetectionOutcome,
    DetectionPage,
    DetectionReport,
    Word,
    new_report,
    receipt,
    view,
)
from detectsched.api.encrypted import read_json_body
from detectsched.api.fields import Mac
from detectsched.api.moments import Moment
from detectsched.api.openapi import LINES, many_body, problems
from detectsched.api.problems import instance_of
from detectsched.clock import utc_now
from detectsched.db import reported
from detectsched.db.reported import NewReport, ReportFilter, StoredReport
from detectsched.errors import IdempotencyMismatch, InvalidRequest, MalformedRequest, RequestRefused, TooLarge
from detectsched.task import normalise_mac

router = APIRouter(prefix="/api", tags=["detections"])

_CHUNK: Final = 500
"""Reports stored by one statement."""
_ANSWERS: Final = {201: {"description": "The report is stored.", "model": DetectionAnswer}} | problems(
    400, 409, 413, 415
)
_BODY: Final = many_body("DetectionReports", "DetectionReport")

_Piece: TypeAlias = tuple[int, bytes]


class DetectionQuery(BaseModel):
    """Which reports to list; a misspelt filter is refused, since it would list everything."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    mac: Mac | None = None
    """Only those of this device, in any usual spelling of its MAC address."""
    kind: DetectionKind | None = None
    """Only those of this kind."""
    word: Word | None = None
    """Only those in which this word was found."""
    category: Category | None = None
    """Only those in which a word of this category was found."""
    min_level: Annotated[int, Field(ge=1, le=100)] | None = None
    """Only those with a word of this level, or a higher one."""
    has_hits: bool | None = None
    """Only those in which something was found, or only the others."""
    since: Moment | None = None
    """Only what was detected then or later."""
    until: Moment | None = None
    """Only what was detected before then."""
    cursor: Annotated[str, Field(pattern=r"^[0-9]{1,18}$")] | None = None
    """Where to go on: the `next_cursor` of the page before."""
    limit: Annotated[int, Field(ge=1, le=500)] = 50
    """Most reports on the page."""


@router.post("/detections", responses=_ANSWERS, openapi_extra=_BODY)
async def report_detections(
    request: Request, response: Response, context: Context, caller: Submitter
) -> DetectionAnswer:
    """Report what a device found by itself: one report, an array of them, or one per line.

    It is stored when this is answered. A report sent again is answered as before. Of many, one that is wrong does not
    keep the others from being stored.
    """
    return await _report(request, response, context, caller.tenant)


@router.post("/decter", responses=_ANSWERS, openapi_extra=_BODY)
async def report_to_decter(
    request: Request, response: Response, context: Context, caller: Submitter
) -> DetectionAnswer:
    """Do as `POST /api/detections` does: the name that this route had in the original system."""
    return await _report(request, response, context, caller.tenant)


@router.get("/detections", responses=problems())
async def list_detections(context: Context, caller: Reader, query: Annotated[DetectionQuery, Query()]) -> DetectionPage:
    """List what devices reported, the latest arrival first."""
    if query.since is not None and query.until is not None and query.since >= query.until:
        raise InvalidRequest("since is not before until: nothing can be between them", field="since")
    wanted = ReportFilter(
        mac=None if query.mac is None else normalise_mac(query.mac),
        kind=query.kind,
        word=query.word,
        category=query.category,
        min_level=query.min_level,
        has_hits=query.has_hits,
        since=query.since,
        until=query.until,
        before=None if query.cursor is None else int(query.cursor),
    )
    found = await reported.list_reports(context.ledger, caller.tenant, wanted, limit=query.limit + 1)
    page = found[: query.limit]
    return DetectionPage(
        items=[view(row) for row in page], next_cursor=str(page[-1].id) if len(found) > len(page) else None
    )


async def _report(request: Request, response: Response, context: ApiContext, tenant: str) -> DetectionAnswer:
    if media_type_of(request) in LINES:
        data = await request.body()
        pieces = [(number, line) for number, line in enumerate(data.split(b"\n"), start=1) if line.strip()]
        return DetectionAnswer(await _many(pieces, request, context, tenant))
    body = await read_json_body(request, context.opener, context.settings, tenant, None)
    if body.data.lstrip()[:1] == b"[":
        return DetectionAnswer(await _many(_elements(body.data), request, context, tenant))
    sent = parse_json(body.data, DetectionReport)
    [stored] = await _store(context, tenant, [new_report(sent, context.settings.reports, now=utc_now())])
    if isinstance(stored, Exception):
        raise stored
    response.status_code = 201 if stored.is_new else 200
    if not stored.is_new:
        response.headers["Idempotency-Replayed"] = "true"
    return DetectionAnswer(receipt(stored))


def _elements(data: bytes) -> list[_Piece]:
    try:
        # Their texts, not their values: each is checked, and told, by itself.
        elements = msgspec.json.decode(data, type=list[msgspec.Raw])
    except msgspec.DecodeError as error:
        raise MalformedRequest(f"the body is not valid JSON: {error}") from None
    return [(number, bytes(element)) for number, element in enumerate(elements, start=1)]


async def _many(pieces: Sequence[_Piece], request: Request, context: ApiContext, tenant: str) -> DetectionBatchOutcome:
    most = context.settings.api.max_batch_lines
    if len(pieces) > most:
        raise TooLarge(f"these are {len(pieces)} reports; at most {most} are taken: split them")
    if not pieces:
        raise InvalidRequest("there is no report: send at least one")
    results: list[DetectionOutcome] = []
    for start in range(0, len(pieces), _CHUNK):
        results += await _some(pieces[start : start + _CHUNK], request, context, tenant)
    refused = sum(outcome.problem is not None for outcome in results)
    return DetectionBatchOutcome(stored=len(results) - refused, refused=refused, results=results)


async def _some(pieces: Sequence[_Piece], request: Request, context: ApiContext, tenant: str) -> list[DetectionOutcome]:
    read = await asyncio.to_thread(lambda: [_read(piece, context) for _, piece in pieces])
    stored = iter(await _store(context, tenant, [item for item in read if isinstance(item, NewReport)]))
    outcomes: Iterator[StoredReport | Exception] = (
        next(stored) if isinstance(item, NewReport) else item for item in read
    )
    path = instance_of(request.scope)
    return [
        _outcome(number, outcome, context, f"{path}#{number}")
        for (number, _), outcome in zip(pieces, outcomes, strict=True)
    ]


def _read(piece: bytes, context: ApiContext) -> NewReport | RequestRefused:
    try:
        sent = parse_json(piece, DetectionReport, what="the report")
        return new_report(sent, context.settings.reports, now=utc_now())
    except RequestRefused as refusal:
        return refusal


async def _store(
    context: ApiContext, tenant: str, reports: Sequence[NewReport]
) -> list[StoredReport | IdempotencyMismatch]:
    if not reports:
        return []
    stored = await reported.store(context.ledger, tenant, reports)
    return [
        answer if answer.request_hash == report.request_hash else _mismatch(report)
        for report, answer in zip(reports, stored, strict=True)
    ]


def _mismatch(report: NewReport) -> IdempotencyMismatch:
    return IdempotencyMismatch(
        f"another report is stored as {report.report_id!r}: give each report an id of its own", field="report_id"
    )


def _outcome(number: int, outcome: StoredReport | Exception, context: ApiContext, instance: str) -> DetectionOutcome:
    if isinstance(outcome, Exception):
        problem = context.answer.problem(outcome, instance=instance)
        return DetectionOutcome(line=number, status=problem.status, problem=problem)
    return DetectionOutcome(line=number, status=201 if outcome.is_new else 200, detection=receipt(outcome))
