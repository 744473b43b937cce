"""Dead letters: looking at them, driving them again, purging them."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from detectsched.api.auth import Admin
from detectsched.api.bodies import Lane, read_json
from detectsched.api.context import Context
from detectsched.api.control import actor_of
from detectsched.api.cursors import cursor_of, position_of
from detectsched.api.decisions import LetterSelection, PurgeRequest, ReasonWord, RedriveRequest
from detectsched.api.fields import Cursor, Mac, ObjectName
from detectsched.api.moments import Moment
from detectsched.api.openapi import body, problems
from detectsched.api.redrive import purge, redrive
from detectsched.api.states import (
    DeadLetterGroup,
    DeadLetterGroups,
    DeadLetterPage,
    DeadLetterView,
    PurgeOutcome,
    RedriveOutcome,
)
from detectsched.db import dead_letters
from detectsched.db.dead_letters import LetterFilter
from detectsched.db.redrives import Plan
from detectsched.errors import InvalidRequest
from detectsched.task import TaskKind, normalise_mac, normalise_object

router = APIRouter(prefix="/api/dead-letters", tags=["dead letters"])

_MOST_PURGED: Final = 10_000
"""In one request, so that it is answered while somebody still waits for it."""


class LetterQuery(BaseModel):
    """Which dead letters; a misspelt filter is refused, since it would mean all of them."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    reason: ReasonWord | None = None
    """Only those that died of this, as in `error.reason`."""
    lane: Lane | None = None
    """Only those of this lane."""
    mac: Mac | None = None
    """Only those of this device, in any usual spelling of its MAC address."""
    object: ObjectName | None = None
    """Only those of this object."""
    kind: TaskKind | None = None
    """Only images, or only texts."""
    since: Moment | None = None
    """Only those that died at this time or later."""
    until: Moment | None = None
    """Only those that died before this time."""


class LetterPageQuery(LetterQuery):
    """Which page of which dead letters."""

    cursor: Cursor | None = None
    """Where to go on: the `next_cursor` of the page before."""
    limit: Annotated[int, Field(ge=1, le=500)] = 50
    """Most dead letters on the page."""


@router.get("", responses=problems())
async def list_dead_letters(
    context: Context, caller: Admin, query: Annotated[LetterPageQuery, Query()]
) -> DeadLetterPage:
    """List dead letters, the latest first; those that were driven again are not among them."""
    before = None if query.cursor is None else position_of(query.cursor)
    found = await dead_letters.dead_letters(
        context.ledger, caller.tenant, _filter_of(query), before=before, limit=query.limit + 1
    )
    page = found[: query.limit]
    return DeadLetterPage(
        items=[DeadLetterView.model_validate(letter) for letter in page],
        next_cursor=cursor_of(page[-1].died_at, page[-1].id) if len(found) > len(page) else None,
    )


@router.get("/groups", responses=problems())
async def group_dead_letters(
    context: Context, caller: Admin, query: Annotated[LetterQuery, Query()]
) -> DeadLetterGroups:
    """Count dead letters by reason, the most frequent first."""
    groups = await dead_letters.letter_groups(context.ledger, caller.tenant, _filter_of(query))
    return DeadLetterGroups(
        items=[DeadLetterGroup.model_validate(group) for group in groups], count=sum(group.count for group in groups)
    )


@router.post("/redrive", responses=problems(400, 404, 409, 415), openapi_extra=body(json="RedriveRequest"))
async def redrive_dead_letters(request: Request, context: Context, caller: Admin) -> RedriveOutcome:
    """Try dead letters again: each becomes a new task that names it as `redrive_of`, with a time to live of its own.

    No more are taken than there is room for beside new work; `left` says how many are to be come back for.
    """
    wanted = await read_json(request, RedriveRequest)
    selected = _filter_of(wanted.filter)
    matched, as_of = await dead_letters.count_letters(context.ledger, caller.tenant, selected)
    if wanted.dry_run:
        return RedriveOutcome(matched=matched, redriven=0, left=matched)
    wanted.check_count(matched)
    room = await context.overload.room()
    plan = Plan(
        caller.tenant,
        selected,
        matched,
        min(matched, room),
        as_of,
        actor_of(caller),
        wanted.rate_per_second,
    )
    return await redrive(context, plan)


@router.post("/purge", responses=problems(400, 404, 409, 415), openapi_extra=body(json="PurgeRequest"))
async def purge_dead_letters(request: Request, context: Context, caller: Admin) -> PurgeOutcome:
    """Remove dead letters for good, with their images and whatever was read in them."""
    wanted = await read_json(request, PurgeRequest)
    selected = _filter_of(wanted.filter)
    matched, as_of = await dead_letters.count_letters(context.ledger, caller.tenant, selected)
    if wanted.dry_run:
        return PurgeOutcome(matched=matched, purged=0, left=matched)
    wanted.check_count(matched)
    plan = Plan(caller.tenant, selected, matched, min(matched, _MOST_PURGED), as_of, actor_of(caller))
    return await purge(context, plan)


def _filter_of(wanted: LetterQuery | LetterSelection) -> LetterFilter:
    if wanted.since is not None and wanted.until is not None and wanted.since >= wanted.until:
        raise InvalidRequest("since is not before until: nothing can be between them", field="since")
    return LetterFilter(
        reason=wanted.reason,
        lane=wanted.lane,
        mac=None if wanted.mac is None else normalise_mac(wanted.mac),
        object=None if wanted.object is None else normalise_object(wanted.object),
        kind=wanted.kind,
        since=wanted.since,
        until=wanted.until,
    )
