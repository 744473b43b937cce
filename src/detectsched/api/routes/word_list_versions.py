"""Versions of word lists: reading them, comparing them, going back."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from detectsched.api import lists
from detectsched.api.auth import Admin, Reader
from detectsched.api.bodies import read_json
from detectsched.api.context import ApiContext, Context
from detectsched.api.control import actor_of
from detectsched.api.list_states import (
    RollBack,
    VersionDetail,
    VersionPage,
    VersionState,
    WordListDiff,
    diff_view,
    word_position_of,
)
from detectsched.api.openapi import body, problems
from detectsched.api.routes.word_lists import Named
from detectsched.api.schemas import ListVersion as ListVersionView
from detectsched.api.schemas import WordListSummary
from detectsched.db import list_drafts, list_versions, word_lists
from detectsched.detection import ListVersion
from detectsched.errors import NotFound

router = APIRouter(prefix="/api/word-lists", tags=["word lists"])

Number = Annotated[int, Path(ge=1, le=2**31 - 1, description="The version's number.")]
State = Annotated[str, Field(pattern=r"^(draft|current|[1-9][0-9]{0,8})$")]

DRAFT: Final = "draft"
CURRENT: Final = "current"


class VersionQuery(BaseModel):
    """Which page of versions."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    cursor: Annotated[str, Field(pattern=r"^[1-9][0-9]{0,8}$")] | None = None
    """Where to go on: the `next_cursor` of the page before."""
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    """Most versions on the page."""


class DiffQuery(BaseModel):
    """What to compare."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    old: State = CURRENT
    """A version's number, `current` or `draft`."""
    new: State = DRAFT
    """The same."""
    cursor: Annotated[str, Field(max_length=2000)] | None = None
    """Where to go on: the `next_cursor` of the page before."""
    limit: Annotated[int, Field(ge=1, le=1000)] = 200
    """Most words on the page."""


@router.get("/{list_id}/versions", responses=problems(404))
async def list_word_list_versions(
    list_id: Named, context: Context, caller: Reader, query: Annotated[VersionQuery, Query()]
) -> VersionPage:
    """List the versions of a word list, newest first; those of a deleted one as well."""
    before = None if query.cursor is None else int(query.cursor)
    found = await list_versions.versions(context.ledger, caller.tenant, list_id, before=before, limit=query.limit + 1)
    if not found and before is None:
        await word_lists.summary(context.ledger, caller.tenant, list_id)
    page = found[: query.limit]
    return VersionPage(
        items=[VersionState.model_validate(item) for item in page],
        next_cursor=str(page[-1].version) if len(found) > len(page) else None,
    )


@router.get("/{list_id}/versions/{version}", responses=problems(404), response_model=VersionDetail)
async def get_word_list_version(list_id: Named, version: Number, context: Context, caller: Reader) -> Response:
    """Get a version of a word list with its options and words: what a result that names it was judged by."""
    await existing(context, caller.tenant, list_id, str(version))
    content = await word_lists.load(context.ledger, caller.tenant, ListVersion(list_id, version))
    head = ListVersionView(id=list_id, version=version)
    return Response(await asyncio.to_thread(lists.shown, head, content), media_type="application/json")


@router.get("/{list_id}/diff", responses=problems(404))
async def compare_word_list(
    list_id: Named, context: Context, caller: Reader, query: Annotated[DiffQuery, Query()]
) -> WordListDiff:
    """Compare two versions of a word list, or a version and the draft."""
    old = await existing(context, caller.tenant, list_id, query.old)
    new = await existing(context, caller.tenant, list_id, query.new)
    after = None if query.cursor is None else word_position_of(query.cursor)
    found = await list_versions.difference(
        context.ledger, caller.tenant, list_id, old, new, after=after, limit=query.limit + 1
    )
    return diff_view(_name(query.old, old), _name(query.new, new), found, query.limit)


@router.post("/{list_id}/rollback", responses=problems(400, 404, 409, 415), openapi_extra=body(json="RollBack"))
async def roll_back_word_list(
    list_id: Named, request: Request, response: Response, context: Context, caller: Admin
) -> WordListSummary:
    """Publish what an earlier version holds, words and options, as a new version; a draft stays as it is."""
    wanted = await read_json(request, RollBack)
    await list_versions.roll_back(
        context.ledger,
        caller.tenant,
        list_id,
        wanted.version,
        by=actor_of(caller),
        expected=wanted.expected_version,
    )
    published = await word_lists.summary(context.ledger, caller.tenant, list_id)
    response.headers["ETag"] = f'"{published.version}"'
    return WordListSummary.model_validate(published)


async def existing(context: ApiContext, tenant: str, list_id: str, state: str) -> int:
    """Return the number of a version that a caller names, `DRAFT` of ``list_versions`` for the draft.

    A list that has only a draft has an empty current version, `NONE` of ``list_versions``.

    Raises:
        NotFound: there is no such list, version or draft.
    """
    if state == DRAFT:
        await list_drafts.draft(context.ledger, tenant, list_id)
        return list_versions.DRAFT
    if state == CURRENT:
        return (await word_lists.summary(context.ledger, tenant, list_id)).version or list_versions.NONE
    found = await list_versions.versions(context.ledger, tenant, list_id, before=int(state) + 1, limit=1)
    if not found or found[0].version != int(state):
        raise NotFound(f"there is no version {state} of a word list {list_id!r}")
    return int(state)


def _name(asked: str, number: int) -> str:
    return asked if asked == DRAFT else str(max(number, 0))
