"""Drafts, versions and differences of word lists, as callers send them and get them."""

from __future__ import annotations

import base64
import binascii
from datetime import datetime
from typing import Annotated, Final, Self

import msgspec
from pydantic import ConfigDict, Field, StringConstraints, model_validator

from detectsched.api.bodies import RequestModel
from detectsched.api.fields import WHOLE, left_out, never
from detectsched.api.lists import ListedOptions, ListedWord, Name, Options, WholeWordList, WordEntry, seen_once, word_of
from detectsched.api.schemas import ResponseModel
from detectsched.db.list_drafts import DraftEdit
from detectsched.db.list_versions import Change, Difference
from detectsched.db.models import WordListDraft
from detectsched.errors import InvalidRequest
from detectsched.wordlist import Word

_MOST_CHANGED: Final = 5_000
"""Words that one change adds or removes; of more the whole draft is sent, or a file."""

_MOST: Final = 2**31 - 1

Revision = Annotated[int, Field(ge=0, le=_MOST), WHOLE]
Version = Annotated[int, Field(ge=0, le=_MOST), WHOLE]


class PutDraft(WholeWordList):
    """The new state of a draft, whole."""

    revision: Revision | None = None
    """The revision of the draft that is to be replaced, 0 for none; if it has another, nothing is changed."""


class WordName(RequestModel):
    """Which word of a list."""

    text: Annotated[str, StringConstraints(max_length=200, pattern=r"^[^\x00]+$")]
    """As the list has it."""
    allow: bool = False
    """Whether the entry that allows it is meant."""


class ChangeDraft(RequestModel):
    """A change of a draft; what is absent stays as it is."""

    model_config = ConfigDict(json_schema_extra=never(left_out("name", "is_default", "options", "remove", "add")))

    name: Name | None = None
    """What people call it."""
    is_default: bool | None = None
    """Whether it judges tasks that name no lists."""
    options: Options | None = None
    """All options, not only those that change."""
    shadow: bool | None = None
    """Only this option: shadow mode."""
    remove: Annotated[tuple[WordName, ...], Field(max_length=_MOST_CHANGED)] = ()
    """Words that go; one that is not there is passed over."""
    add: Annotated[tuple[WordEntry, ...], Field(max_length=_MOST_CHANGED)] = ()
    """Words that come, or are replaced, behind the others."""
    revision: Revision | None = None
    """The revision of the draft that was seen, 0 for none; if it has another, nothing is changed."""

    @model_validator(mode="after")
    def _changes(self) -> Self:
        if not self.model_fields_set - {"revision"}:
            raise ValueError("it changes nothing: give name, is_default, options, shadow, remove or add")
        return self

    def edit(self) -> DraftEdit:
        """Return what is to be done.

        Raises:
            InvalidRequest: a rule cannot be run; a word holds nothing that can be seen.
        """
        return DraftEdit(
            name=self.name,
            is_default=self.is_default,
            options=None if self.options is None else self.options.checked(),
            shadow=self.shadow,
            remove=[(word.text, word.allow) for word in self.remove],
            add=seen_once([word_of(entry) for entry in self.add], field="add") if self.add else (),
            seen=self.revision,
        )


class PublishDraft(RequestModel):
    """How a draft is published."""

    expected_version: Version | None = None
    """The version that is to be replaced; without it the one from which the draft was begun."""
    revision: Revision | None = None
    """The revision of the draft that was seen; if it has another, nothing is published."""


class RollBack(RequestModel):
    """Which version comes back."""

    version: Annotated[int, Field(ge=1, le=_MOST), WHOLE]
    """The version whose words and options become the next one."""
    expected_version: Version | None = None
    """The version that is to be replaced; if another is current, nothing is published."""


class DraftState(ResponseModel):
    """A draft: what is to become the next version of a list."""

    id: str
    name: str
    is_default: bool
    base_version: int
    """The version that was current when it was begun; 0: none."""
    revision: int
    """Counts its changes."""
    word_count: int
    updated_at: datetime
    updated_by: str


class DraftDetail(DraftState):
    """A draft with its words."""

    options: ListedOptions
    words: list[ListedWord]


class VersionState(ResponseModel):
    """One version of a list."""

    version: int
    word_count: int
    published_at: datetime
    published_by: str
    shadow: bool
    restores: int | None
    """The earlier version that it repeats, where it is a rollback."""


class VersionDetail(ResponseModel):
    """One version of a list with its words."""

    id: str
    version: int
    options: ListedOptions
    words: list[ListedWord]


class VersionPage(ResponseModel):
    """Versions of a list, newest first."""

    items: list[VersionState]
    next_cursor: str | None
    """Give it as `cursor` to get the next page; null on the last."""


class WordChange(ResponseModel):
    """A word that differs: added (`before` is null), removed (`after` is null) or changed."""

    before: ListedWord | None
    after: ListedWord | None


class WordListDiff(ResponseModel):
    """What differs between two states of a list."""

    old: str
    """A version, or `draft`."""
    new: str
    added: int
    """Words, in all."""
    removed: int
    changed: int
    old_options: ListedOptions | None
    """How it was matched; null where that is the same."""
    new_options: ListedOptions | None
    items: list[WordChange]
    """Words in the order of their code points."""
    next_cursor: str | None
    """Give it as `cursor` to get the next page; null on the last."""


def draft_state(row: WordListDraft) -> DraftState:
    """Show a draft."""
    names = ("name", "is_default", "base_version", "revision", "word_count", "updated_at", "updated_by")
    return DraftState(id=row.list_id, **{name: getattr(row, name) for name in names})


def diff_view(old: str, new: str, found: Difference, limit: int) -> WordListDiff:
    """Show a difference that was asked for with one change more than ``limit``."""
    page = found.changes[:limit]
    alike = found.before == found.after
    return WordListDiff(
        old=old,
        new=new,
        added=found.added,
        removed=found.removed,
        changed=found.changed,
        old_options=None if alike else ListedOptions.model_validate(found.before),
        new_options=None if alike else ListedOptions.model_validate(found.after),
        items=[WordChange(before=_listed(change.before), after=_listed(change.after)) for change in page],
        next_cursor=_cursor_of(page[-1]) if len(found.changes) > limit else None,
    )


def _listed(word: Word | None) -> ListedWord | None:
    return None if word is None else ListedWord.model_validate(word)


def _cursor_of(change: Change) -> str:
    word = change.after or change.before
    assert word is not None  # noqa: S101 - a change has one side at least
    return base64.urlsafe_b64encode(msgspec.json.encode((word.text, word.allow))).decode()


def word_position_of(cursor: str) -> tuple[str, bool]:
    """Return the last word of the page before.

    Raises:
        InvalidRequest: the cursor is none of ours.
    """
    try:
        position = msgspec.json.decode(base64.b64decode(cursor, altchars=b"-_", validate=True), type=tuple[str, bool])
    except (binascii.Error, ValueError):
        raise InvalidRequest("this is no cursor: use the next_cursor of a page", field="cursor") from None
    if "\0" in position[0]:
        raise InvalidRequest("this is no cursor: use the next_cursor of a page", field="cursor")
    return position
