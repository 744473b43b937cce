"""Publishing, reading and deleting word lists."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from detectsched.api import lists
from detectsched.api.auth import Admin, Reader
from detectsched.api.bodies import ListId, require_json
from detectsched.api.context import Context
from detectsched.api.control import actor_of
from detectsched.api.lists import PublishWordList, WordListDetail
from detectsched.api.openapi import body, problems
from detectsched.api.schemas import WordListPage, WordListSummary
from detectsched.db import word_lists
from detectsched.detection import ListVersion

router = APIRouter(prefix="/api/word-lists", tags=["word lists"])

Named = Annotated[ListId, Path(description="The list's id: lower-case letters, digits, - and _.")]


@router.put("/{list_id}", responses=problems(400, 409, 413, 415), openapi_extra=body(json="PublishWordList"))
async def publish_word_list(
    list_id: Named, request: Request, response: Response, context: Context, caller: Admin
) -> WordListSummary:
    """Publish a new version of a word list at once, which is created when it is new.

    Tasks that are matched from now on are judged by it, also those accepted before.
    """
    require_json(request)
    wanted, content = await asyncio.to_thread(lists.parse, await request.body(), PublishWordList)
    await word_lists.publish(
        context.ledger,
        caller.tenant,
        list_id,
        content.words,
        name=wanted.name,
        is_default=wanted.is_default,
        by=actor_of(caller),
        options=content.options,
        expected=wanted.expected_version,
    )
    published = await word_lists.summary(context.ledger, caller.tenant, list_id)
    response.headers["ETag"] = f'"{published.version}"'
    return WordListSummary.model_validate(published)


@router.get("", responses=problems())
async def list_word_lists(context: Context, caller: Reader) -> WordListPage:
    """List the word lists."""
    found = await word_lists.summaries(context.ledger, caller.tenant)
    return WordListPage(items=[WordListSummary.model_validate(item) for item in found])


@router.get("/{list_id}", responses=problems(404), response_model=WordListDetail)
async def get_word_list(list_id: Named, context: Context, caller: Reader) -> Response:
    """Get a word list with the options and the words of its current version."""
    found = await word_lists.summary(context.ledger, caller.tenant, list_id)
    content = await word_lists.load(context.ledger, caller.tenant, ListVersion(list_id, found.version))
    document = await asyncio.to_thread(lists.shown, WordListSummary.model_validate(found), content)
    return Response(document, media_type="application/json", headers={"ETag": f'"{found.version}"'})


@router.delete("/{list_id}", status_code=204, responses=problems(404, 409))
async def delete_word_list(list_id: Named, context: Context, caller: Admin) -> Response:
    """Delete a word list and its draft: no new task is judged by it.

    Its versions stay, for the results that name them, and for the tasks that were accepted with it.
    """
    await word_lists.delete(context.ledger, caller.tenant, list_id, by=actor_of(caller))
    return Response(status_code=204)
