"""How often the words of a list are found: which are noisy, and which are dead."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from detectsched.api.auth import Reader
from detectsched.api.context import Context
from detectsched.api.openapi import problems
from detectsched.api.routes.word_lists import Named
from detectsched.api.schemas import ResponseModel
from detectsched.db import list_terms, word_lists

router = APIRouter(prefix="/api/word-lists", tags=["word lists"])


class TermQuery(BaseModel):
    """How many terms are shown."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    """Most terms, and most words that were not found."""


class TermState(ResponseModel):
    """A word, or a rule, that was found."""

    word: str
    """The word, or the name of the rule."""
    rule: str | None
    """The kind of the rule; null for a word."""
    hits: int
    shadow_hits: int
    """Hits while the list was in shadow mode."""
    tasks: int
    last_task: UUID
    """The latest task in which it was found."""


class TermReport(ResponseModel):
    """What a list finds, whichever of its versions found it."""

    id: str
    version: int
    """The current version, whose words `silent` are told of."""
    counted: int
    """Hits that were counted: the latest, up to 100,000."""
    since: datetime | None
    """When the task of the oldest of them was accepted."""
    found: int
    """How many words and rules were found, in all."""
    terms: list[TermState]
    """The most frequent first."""
    silent: int
    """How many words of the current version were not found."""
    silent_words: list[str]
    """Those words, in the order of the list."""


@router.get("/{list_id}/terms", responses=problems(404))
async def report_word_list_terms(
    list_id: Named, context: Context, caller: Reader, query: Annotated[TermQuery, Query()]
) -> TermReport:
    """Count the latest hits of a word list by word and rule, and tell which words were not found."""
    found = await word_lists.summary(context.ledger, caller.tenant, list_id)
    told = await list_terms.terms(context.ledger, caller.tenant, list_id, found.version, limit=query.limit)
    return TermReport(
        id=list_id,
        version=found.version,
        counted=told.counted,
        since=told.since,
        found=told.found,
        terms=[TermState.model_validate(term) for term in told.terms],
        silent=told.silent,
        silent_words=list(told.silent_words),
    )
