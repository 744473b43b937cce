"""Word lists: each publication is a new version that never changes; a task is judged by the current ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, cast

from sqlmodel import col, select

from detectsched.db.audit import Actor, record
from detectsched.db.codec import options_from_json, options_to_json
from detectsched.db.connection import Connection, Ledger
from detectsched.db.models import WordList, WordListDraft, WordListVersion
from detectsched.detection import ListVersion
from detectsched.errors import Conflict, InvalidRequest, NotFound
from detectsched.wordlist import ListContent, ListOptions, Mode, Word

PAGE: Final = 2000
"""Rows that are encoded or decoded at once, between two looks at the event loop."""
COLUMNS: Final = ("text", "category", "level", "mode", "allow", "tags", "replacement")
_ID: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class ListSummary:
    """A list and its current version; 0 where it has only a draft."""

    id: str
    name: str
    is_default: bool
    version: int
    word_count: int
    published_at: datetime | None
    shadow: bool = False
    has_draft: bool = False


async def publish(
    ledger: Ledger,
    tenant: str,
    list_id: str,
    words: Sequence[Word],
    *,
    name: str,
    is_default: bool,
    by: str | Actor,
    options: ListOptions | None = None,
    expected: int | None = None,
) -> ListVersion:
    """Make these words, matched in this way, the current version of a list, which is created when it is new.

    Raises:
        InvalidRequest: the id is not of lower-case letters, digits, ``-`` and ``_``.
        Conflict: the current version is not the ``expected`` one.
    """
    actor = by if isinstance(by, Actor) else Actor(by)
    how = options or ListOptions()
    async with ledger.transaction() as connection:
        await lock(connection, tenant, list_id, expected=expected)
        version = await advance(
            connection, tenant, list_id, name=name, is_default=is_default, options=how, words=len(words), by=actor
        )
        for first in range(0, len(words), PAGE):
            page = enumerate(words[first : first + PAGE], first)
            await connection.copy_records_to_table(
                "word",
                records=[(tenant, list_id, version, place, *columns_of(word)) for place, word in page],
                columns=["tenant", "list_id", "version", "position", *COLUMNS],
            )
    return ListVersion(list_id, version)


async def lock(connection: Connection, tenant: str, list_id: str, *, expected: int | None = None) -> int:
    """Let nobody else change a list until this transaction ends, and return its current version; 0: it has none.

    A list that is new gets a row, without a version; a deleted one counts as having none.

    Raises:
        InvalidRequest: the id is none.
        Conflict: the current version is not the ``expected`` one.
    """
    if not _ID.fullmatch(list_id):
        raise InvalidRequest(
            f"{list_id[:80]!r} is not a list id: up to 64 lower-case letters, digits, - and _", field="list_id"
        )
    current: int | None = None
    while current is None:
        await connection.execute(
            "INSERT INTO word_list (tenant, id, name, is_default, current_version) VALUES ($1, $2, $2, false, 0) "
            "ON CONFLICT (tenant, id) DO NOTHING",
            tenant,
            list_id,
        )
        # Nothing, if whoever dropped the only draft of the list removed its row between the two statements.
        current = await connection.fetchval(
            "SELECT CASE WHEN deleted_at IS NULL THEN current_version ELSE 0 END FROM word_list "
            "WHERE tenant = $1 AND id = $2 FOR UPDATE",
            tenant,
            list_id,
        )
    if expected is not None and expected != current:
        raise Conflict(
            f"the current version of {list_id!r} is {current}, not {expected}: see what has changed with "
            f"GET /api/word-lists/{list_id}/diff, then name version {current}",
            field="expected_version",
        )
    return current


async def advance(
    connection: Connection,
    tenant: str,
    list_id: str,
    *,
    name: str | None,
    is_default: bool | None,
    options: ListOptions,
    words: int,
    by: Actor,
    restores: int | None = None,
) -> int:
    """Begin the next version of a list that is locked, and return its number; its words are still to be written.

    ``name`` and ``is_default`` None: as they are. Numbers go on over a deletion: results name them.
    """
    version = int(
        await connection.fetchval(
            "UPDATE word_list SET name = coalesce($3, name), is_default = coalesce($4, is_default), "
            "current_version = current_version + 1, deleted_at = NULL WHERE tenant = $1 AND id = $2 "
            "RETURNING current_version",
            tenant,
            list_id,
            name,
            is_default,
        )
    )
    await connection.execute(
        "INSERT INTO word_list_version (tenant, list_id, version, word_count, published_by, options, restores) "
        "VALUES ($1, $2, $3, $4, $5, $6, $7)",
        tenant,
        list_id,
        version,
        words,
        by.name,
        options_to_json(options),
        restores,
    )
    facts = {"version": version, "word_count": words, "shadow": options.shadow, "is_default": is_default}
    if restores is not None:
        facts["restores"] = restores
    action = "publish_word_list" if restores is None else "roll_back_word_list"
    await record(connection, tenant, by, action, list_id, facts)
    return version


async def delete(ledger: Ledger, tenant: str, list_id: str, *, by: Actor) -> None:
    """Have nothing new judged by a list, and drop its draft. Its versions stay: tasks that name it are judged by it.

    Raises:
        NotFound: there is no such list.
        Conflict: objects name it.
    """
    async with ledger.transaction() as connection:
        row = await connection.fetchrow(
            "SELECT current_version FROM word_list l WHERE tenant = $1 AND id = $2 AND (deleted_at IS NULL OR EXISTS "
            "(SELECT FROM word_list_draft d WHERE d.tenant = l.tenant AND d.list_id = l.id)) FOR UPDATE",
            tenant,
            list_id,
        )
        if row is None:
            raise NotFound(f"there is no word list {list_id[:80]!r}")
        users = await connection.fetch(
            "SELECT name FROM object WHERE tenant = $1 AND $2 = ANY (word_lists) ORDER BY name LIMIT 6", tenant, list_id
        )
        if users:
            some = ", ".join(repr(user["name"]) for user in users[:5]) + (", and others" if len(users) > 5 else "")
            raise Conflict(f"these objects are judged by {list_id!r}: {some}; give them other lists first")
        await connection.execute("DELETE FROM word_list_draft WHERE tenant = $1 AND list_id = $2", tenant, list_id)
        if row["current_version"]:
            await connection.execute(
                "UPDATE word_list SET deleted_at = coalesce(deleted_at, now()), is_default = false "
                "WHERE tenant = $1 AND id = $2",
                tenant,
                list_id,
            )
        else:
            await connection.execute("DELETE FROM word_list WHERE tenant = $1 AND id = $2", tenant, list_id)
        await record(connection, tenant, by, "delete_word_list", list_id, {"version": row["current_version"]})


async def load(ledger: Ledger, tenant: str, version: ListVersion) -> ListContent:
    """Return one version; one that does not exist is empty."""
    async with ledger.connection() as connection:
        options = await connection.fetchval(
            "SELECT options FROM word_list_version WHERE tenant = $1 AND list_id = $2 AND version = $3",
            tenant,
            version.list_id,
            version.version,
        )
    words: list[Word] = []
    # Page by page: a hundred thousand rows at once would hold up the event loop.
    while len(words) % PAGE == 0:
        async with ledger.connection() as connection:
            rows = await connection.fetch(
                "SELECT text, category, level, mode, allow, tags, replacement FROM word "
                "WHERE tenant = $1 AND list_id = $2 AND version = $3 AND position >= $4 ORDER BY position LIMIT $5",
                tenant,
                version.list_id,
                version.version,
                len(words),
                PAGE,
            )
        if not rows:
            break
        words += map(word_of, rows)
    return ListContent(tuple(words), options_from_json(options or {}))


def columns_of(word: Word) -> tuple[Any, ...]:
    """Return what `COLUMNS` name."""
    mode = None if word.mode is None else word.mode.value
    return word.text, word.category, word.level, mode, word.allow, list(word.tags), word.replacement


def word_of(row: Any) -> Word:
    """Return the word that a row of `COLUMNS` holds."""
    mode = None if row["mode"] is None else Mode(row["mode"])
    return Word(row["text"], row["category"], row["level"], mode, row["allow"], tuple(row["tags"]), row["replacement"])


async def summaries(ledger: Ledger, tenant: str) -> list[ListSummary]:
    """Return the lists of a tenant by id; a deleted one if somebody drafts it anew."""
    query = (
        select(WordList, WordListVersion, WordListDraft.revision)
        .outerjoin(
            WordListVersion,
            (col(WordListVersion.tenant) == WordList.tenant)
            & (col(WordListVersion.list_id) == WordList.id)
            & (col(WordListVersion.version) == WordList.current_version)
            & col(WordList.deleted_at).is_(None),
        )
        .outerjoin(
            WordListDraft,
            (col(WordListDraft.tenant) == WordList.tenant) & (col(WordListDraft.list_id) == WordList.id),
        )
        .where(WordList.tenant == tenant)
        .where(col(WordList.deleted_at).is_(None) | col(WordListDraft.revision).is_not(None))
        .order_by(WordList.id)
    )
    async with ledger.reading() as session:
        rows = (await session.exec(query)).all()
    return [
        _summary(row, version, has_draft=revision is not None)
        for row, version, revision in cast("Sequence[tuple[WordList, WordListVersion | None, int | None]]", rows)
    ]


def _summary(row: WordList, version: WordListVersion | None, *, has_draft: bool) -> ListSummary:
    if version is None:
        return ListSummary(row.id, row.name, row.is_default, 0, 0, None, has_draft=has_draft)
    return ListSummary(
        row.id,
        row.name,
        row.is_default,
        version.version,
        version.word_count,
        version.published_at,
        bool(version.options.get("shadow")),
        has_draft,
    )


async def summary(ledger: Ledger, tenant: str, list_id: str) -> ListSummary:
    """Return one list.

    Raises:
        NotFound: the tenant has no such list.
    """
    for item in await summaries(ledger, tenant):
        if item.id == list_id:
            return item
    raise NotFound(f"there is no word list {list_id[:80]!r}")


async def missing_lists(ledger: Ledger, tenant: str, list_ids: Sequence[str]) -> list[str]:
    """Return those of the named lists that the tenant does not have, or has not published."""
    async with ledger.connection() as connection:
        rows = await connection.fetch(
            "SELECT id FROM word_list WHERE tenant = $1 AND id = ANY ($2::text[]) AND current_version > 0 "
            "AND deleted_at IS NULL",
            tenant,
            list(list_ids),
        )
    known = {row["id"] for row in rows}
    return [list_id for list_id in list_ids if list_id not in known]
