"""Publishing and reading word lists."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from detectsched.api.auth import Admin, Reader
from detectsched.api.bodies import ListId, PublishWordList, WordEntry, read_json
from detectsched.api.context import Context
from detectsched.api.openapi import body, problems
from detectsched.api.problems import FieldError, InvalidFields
from detectsched.api.schemas import ListedWord, WordListDetail, WordListPage, WordListSummary
from detectsched.db import word_lists
from detectsched.detection import ListVersion
from detectsched.matching.normalise import normalise_all
from detectsched.wordlist import Word

router = APIRouter(prefix="/api/word-lists", tags=["word lists"])

_MOST_TOLD = 20
"""Wrong words named in one answer."""

Named = Annotated[ListId, Path(description="The list's id: lower-case letters, digits, - and _.")]


@router.put("/{list_id}", responses=problems(400, 413, 415), openapi_extra=body(json="PublishWordList"))
async def publish_word_list(
    list_id: Named, request: Request, response: Response, context: Context, caller: Admin
) -> WordListSummary:
    """Publish a new version of a word list, which is created when it is new.

    Tasks that are matched from now on are judged by it, also those accepted before.
    """
    wanted = await read_json(request, PublishWordList)
    words = await asyncio.to_thread(_checked, wanted.words)
    await word_lists.publish(
        context.ledger,
        caller.tenant,
        list_id,
        words,
        name=wanted.name,
        is_default=wanted.is_default,
        by=f"key {caller.key_id}",
    )
    published = await word_lists.summary(context.ledger, caller.tenant, list_id)
    response.headers["ETag"] = f'"{published.version}"'
    return WordListSummary.model_validate(published)


@router.get("", responses=problems())
async def list_word_lists(context: Context, caller: Reader) -> WordListPage:
    """List the word lists."""
    found = await word_lists.summaries(context.ledger, caller.tenant)
    return WordListPage(items=[WordListSummary.model_validate(item) for item in found])


@router.get("/{list_id}", responses=problems(404))
async def get_word_list(list_id: Named, response: Response, context: Context, caller: Reader) -> WordListDetail:
    """Get a word list with the words of its current version."""
    found = await word_lists.summary(context.ledger, caller.tenant, list_id)
    content = await word_lists.load(context.ledger, caller.tenant, ListVersion(list_id, found.version))
    response.headers["ETag"] = f'"{found.version}"'
    return WordListDetail(
        **WordListSummary.model_validate(found).model_dump(),
        words=[ListedWord.model_validate(word) for word in content.words],
    )


def _checked(entries: Sequence[WordEntry]) -> list[Word]:
    """Return the words, each once.

    Raises:
        InvalidFields: some hold nothing that the matcher could see.
    """
    folded = normalise_all([entry.text for entry in entries])
    unseen = [place for place, content in enumerate(folded) if not content.strip()]
    if unseen:
        raise InvalidFields(
            [
                FieldError(
                    field=f"words.{place}.text",
                    detail=f"{entries[place].text!r} holds nothing that can be seen: take it out",
                )
                for place in unseen[:_MOST_TOLD]
            ]
        )
    first: dict[str, WordEntry] = {}
    for entry in entries:
        first.setdefault(entry.text, entry)
    return [Word(entry.text, entry.category, entry.level) for entry in first.values()]
