"""Drafts of word lists, and publishing them."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request, Response

from detectsched.api import lists
from detectsched.api.auth import Admin, Reader
from detectsched.api.bodies import parse_json, read_optional_json, require_json
from detectsched.api.context import Context
from detectsched.api.control import actor_of
from detectsched.api.list_states import ChangeDraft, DraftDetail, DraftState, PublishDraft, PutDraft, draft_state
from detectsched.api.openapi import body, optional_body, problems
from detectsched.api.routes.word_lists import Named
from detectsched.api.schemas import WordListSummary
from detectsched.db import list_drafts, word_lists
from detectsched.db.list_drafts import DraftEdit

router = APIRouter(prefix="/api/word-lists", tags=["word lists"])


@router.get("/{list_id}/draft", responses=problems(404), response_model=DraftDetail)
async def get_word_list_draft(list_id: Named, context: Context, caller: Reader) -> Response:
    """Get the draft of a word list with its options and words."""
    row = await list_drafts.draft(context.ledger, caller.tenant, list_id)
    content = await list_drafts.load_draft(context.ledger, caller.tenant, list_id)
    document = await asyncio.to_thread(lists.shown, draft_state(row), content)
    return Response(document, media_type="application/json")


@router.put("/{list_id}/draft", responses=problems(400, 409, 413, 415), openapi_extra=body(json="PutDraft"))
async def put_word_list_draft(list_id: Named, request: Request, context: Context, caller: Admin) -> DraftState:
    """Make a draft, or replace it, whole; nothing is judged by it until it is published."""
    require_json(request)
    wanted, content = await asyncio.to_thread(lists.parse, await request.body(), PutDraft)
    edit = DraftEdit(
        name=wanted.name,
        is_default=wanted.is_default,
        options=content.options,
        replace=True,
        add=content.words,
        seen=wanted.revision,
    )
    return draft_state(await list_drafts.edit(context.ledger, caller.tenant, list_id, edit, by=actor_of(caller)))


@router.patch("/{list_id}/draft", responses=problems(400, 409, 413, 415), openapi_extra=body(json="ChangeDraft"))
async def change_word_list_draft(list_id: Named, request: Request, context: Context, caller: Admin) -> DraftState:
    """Change a draft; where there is none, one is begun as a copy of the current version."""
    require_json(request)
    data = await request.body()
    edit = await asyncio.to_thread(lambda: parse_json(data, ChangeDraft).edit())
    return draft_state(await list_drafts.edit(context.ledger, caller.tenant, list_id, edit, by=actor_of(caller)))


@router.delete("/{list_id}/draft", status_code=204, responses=problems(404))
async def discard_word_list_draft(list_id: Named, context: Context, caller: Admin) -> Response:
    """Drop the draft of a word list."""
    await list_drafts.discard(context.ledger, caller.tenant, list_id, by=actor_of(caller))
    return Response(status_code=204)


@router.post("/{list_id}/publish", responses=problems(400, 404, 409, 415), openapi_extra=optional_body("PublishDraft"))
async def publish_word_list_draft(
    list_id: Named, request: Request, response: Response, context: Context, caller: Admin
) -> WordListSummary:
    """Make the draft the current version of the list.

    Nothing is published if another version has become current since the draft was begun, or the draft was changed since
    it was read: see the difference, and name what you have seen.
    """
    wanted = await read_optional_json(request, PublishDraft)
    await list_drafts.publish_draft(
        context.ledger,
        caller.tenant,
        list_id,
        by=actor_of(caller),
        expected=wanted.expected_version,
        seen=wanted.revision,
    )
    published = await word_lists.summary(context.ledger, caller.tenant, list_id)
    response.headers["ETag"] = f'"{published.version}"'
    return WordListSummary.model_validate(published)
