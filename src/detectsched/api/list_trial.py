"""Trying word lists: what is sent and answered, and how many are tried at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Final, Self
from uuid import UUID

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from detectsched.api.bodies import ListId, RequestModel, without_null
from detectsched.api.fields import exactly_one
from detectsched.api.schemas import Hit, ListVersion, ResponseModel
from detectsched.api.views import hits_found
from detectsched.db import list_drafts, list_versions, word_lists
from detectsched.db.connection import Ledger
from detectsched.detection import Detection, Text
from detectsched.detection import ListVersion as Version
from detectsched.errors import InvalidRequest, SystemOverloaded
from detectsched.matching.trial import try_lists
from detectsched.task import TaskState
from detectsched.wordlist import ListContent

OBJECT: Final = "word list test"
"""Whose task an image becomes that lists are tried on: one after the other, in its turn."""

_AT_ONCE: Final = 2
_PATIENCE_SECONDS: Final = 5.0
_LONGEST_SECONDS: Final = 30.0
_MOST_WORDS: Final = 200_000
"""Words of all lists that are tried together: a process of some hundred megabytes."""


class _Tried(RequestModel):
    word_lists: Annotated[list[ListId], Field(min_length=1, max_length=20)] | None = None
    """Published lists to try; without them, and without a draft, the default lists."""
    draft: ListId | None = None
    """The list whose draft is tried as well."""


class TryWordLists(_Tried):
    """A text to try lists on, or a task whose text or image was read before; exactly one of both."""

    model_config = ConfigDict(json_schema_extra=exactly_one(("text", "task_id")))

    text: Annotated[str, StringConstraints(min_length=1)] | None = None
    """The text."""
    task_id: UUID | None = None
    """The task."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.text is None) == (self.task_id is None):
            raise ValueError("give exactly one of text and task_id")
        return self


class TryWordListsForm(_Tried):
    """An image to try lists on, as a form."""

    model_config = ConfigDict(strict=False, json_schema_extra=without_null)

    image: bytes
    """The image file, as a part with a file name."""


class Trial(ResponseModel):
    """What lists find; nothing of it is kept, and nothing follows from it."""

    task_id: UUID | None
    """The task that reads, or has read, the image; null for a text."""
    state: TaskState | None
    """`succeeded`: it was read. Else the task still waits: ask again with its `task_id`."""
    text: str
    """What was searched."""
    judged_by: list[ListVersion]
    """What it was searched by; version 0 is the draft."""
    top_level: int
    hits: list[Hit]
    hits_cut: bool
    shadow_hits: list[Hit]
    """What lists, or a draft, in shadow mode find."""


class Trials:
    """Bounds how many processes try lists at once."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._free = asyncio.Semaphore(_AT_ONCE)

    async def judge(self, tenant: str, versions: Sequence[Version], text: Text) -> Detection:
        """Return what these versions find in a text.

        Raises:
            InvalidRequest: a rule cannot be run on it, or it takes too long.
            SystemOverloaded: too many others are being tried.
        """
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await self._free.acquire()
        except TimeoutError:
            raise SystemOverloaded(
                f"{_AT_ONCE} texts are being tried, the most at a time: ask again later", retry_after=10
            ) from None
        try:
            contents = {version: await self._load(tenant, version) for version in versions}
            return await try_lists(contents, text, seconds=_LONGEST_SECONDS)
        finally:
            self._free.release()

    async def versions(self, tenant: str, wanted: _Tried) -> list[Version]:
        """Return what is to be tried.

        Raises:
            InvalidRequest: there is no such list, or they have too many words.
            NotFound: there is no such draft.
        """
        known = {item.id: item for item in await word_lists.summaries(self._ledger, tenant) if item.version}
        names = wanted.word_lists
        if names is None:
            names = [] if wanted.draft else [item.id for item in known.values() if item.is_default]
        for name in names:
            if name not in known:
                raise InvalidRequest(f"there is no word list {name!r} that is published", field="word_lists")
        words = sum(known[name].word_count for name in set(names))
        chosen = [Version(name, known[name].version) for name in dict.fromkeys(names)]
        if wanted.draft is not None:
            words += (await list_drafts.draft(self._ledger, tenant, wanted.draft)).word_count
            chosen.append(Version(wanted.draft, list_versions.DRAFT))
        if words > _MOST_WORDS:
            raise InvalidRequest(
                f"these lists have {words} words; at most {_MOST_WORDS} are tried together: name fewer lists",
                field="word_lists",
            )
        return chosen

    async def _load(self, tenant: str, version: Version) -> ListContent:
        if version.version == list_versions.DRAFT:
            return await list_drafts.load_draft(self._ledger, tenant, version.list_id)
        return await word_lists.load(self._ledger, tenant, version)


def trial(found: Detection, text: Text, task_id: UUID | None) -> Trial:
    """Show what was found."""
    return Trial(
        task_id=task_id,
        state=None if task_id is None else TaskState.SUCCEEDED,
        text=text.content,
        judged_by=[ListVersion(id=version.list_id, version=version.version) for version in found.lists],
        top_level=max((hit.level for hit in found.hits), default=0),
        hits=hits_found(found.hits),
        hits_cut=found.cut,
        shadow_hits=hits_found(found.shadow),
    )


def waiting(task_id: UUID, state: TaskState, versions: Sequence[Version]) -> Trial:
    """Show that an image has not been read yet."""
    listed = [ListVersion(id=version.list_id, version=version.version) for version in versions]
    return Trial(
        task_id=task_id, state=state, text="", judged_by=listed, top_level=0, hits=[], hits_cut=False, shadow_hits=[]
    )
