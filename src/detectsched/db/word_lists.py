"""Word lists: each publication is a new version that never changes; a task is judged by the current ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, cast

from sqlmodel import col, select

from detectsched.db.codec import options_from_json, options_to_json
from detectsched.db.connection import Ledger
from detectsched.db.models import WordList, WordListVersion
from detectsched.detection import ListVersion
from detectsched.errors import InvalidRequest, NotFound
from detectsched.wordlist import ListContent, ListOptions, Mode, Word

_PAGE: Final = 5000
"""Rows that are encoded or decoded at once, between two looks at the event loop."""
_COLUMNS: Final = ("text", "category", "level", "mode", "allow", "tags", "replacement")
_ID: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class ListSummary:
    """A list and its current version."""

    id: str
    name: str
    is_default: bool
    version: int
    word_count: int
    published_at: datetime | None


async def publish(
    ledger: Ledger,
    tenant: str,
    list_id: str,
    words: Sequence[Word],
    *,
    name: str,
    is_default: bool,
    by: str,
    options: ListOptions | None = None,
) -> ListVersion:
    """Make these words, matched in this way, the current version of a list, which is created when it is new.

    Raises:
        InvalidRequest: the id is not of lower-case letters, digits, ``-`` and ``_``.
    """
    if not _ID.fullmatch(list_id):
        raise InvalidRequest(
            f"{list_id[:80]!r} is not a list id: up to 64 lower-case letters, digits, - and _", field="list_id"
        )
    async with ledger.transaction() as connection:
        # The upsert locks the list's row, so that two publications get two versions.
        version = await connection.fetchval(
            """
            INSERT INTO word_list (tenant, id, name, is_default, current_version) VALUES ($1, $2, $3, $4, 1)
            ON CONFLICT (tenant, id) DO UPDATE SET name = excluded.name, is_default = excluded.is_default,
                current_version = word_list.current_version + 1
            RETURNING current_version
            """,
            tenant,
            list_id,
            name,
            is_default,
        )
        await connection.execute(
            "INSERT INTO word_list_version (tenant, list_id, version, word_count, published_by, options) "
            "VALUES ($1, $2, $3, $4, $5, $6)",
            tenant,
            list_id,
            version,
            len(words),
            by,
            options_to_json(options or ListOptions()),
        )
        for first in range(0, len(words), _PAGE):
            page = enumerate(words[first : first + _PAGE], first)
            await connection.copy_records_to_table(
                "word",
                records=[(tenant, list_id, version, place, *_columns_of(word)) for place, word in page],
                columns=["tenant", "list_id", "version", "position", *_COLUMNS],
            )
    return ListVersion(list_id, version)


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
    while len(words) % _PAGE == 0:
        async with ledger.connection() as connection:
            rows = await connection.fetch(
                "SELECT text, category, level, mode, allow, tags, replacement FROM word "
                "WHERE tenant = $1 AND list_id = $2 AND version = $3 AND position >= $4 ORDER BY position LIMIT $5",
                tenant,
                version.list_id,
                version.version,
                len(words),
                _PAGE,
            )
        if not rows:
            break
        words += map(_word, rows)
    return ListContent(tuple(words), options_from_json(options or {}))


def _columns_of(word: Word) -> tuple[Any, ...]:
    """Return what `_COLUMNS` name."""
    mode = None if word.mode is None else word.mode.value
    return word.text, word.category, word.level, mode, word.allow, list(word.tags), word.replacement


def _word(row: Any) -> Word:
    mode = None if row["mode"] is None else Mode(row["mode"])
    return Word(row["text"], row["category"], row["level"], mode, row["allow"], tuple(row["tags"]), row["replacement"])


async def summaries(ledger: Ledger, tenant: str) -> list[ListSummary]:
    """Return the lists of a tenant by id."""
    query = (
        select(WordList, WordListVersion)
        .outerjoin(
            WordListVersion,
            (col(WordListVersion.tenant) == WordList.tenant)
            & (col(WordListVersion.list_id) == WordList.id)
            & (col(WordListVersion.version) == WordList.current_version),
        )
        .where(WordList.tenant == tenant)
        .order_by(WordList.id)
    )
    async with ledger.reading() as session:
        rows = (await session.exec(query)).all()
    return [
        ListSummary(
            row.id,
            row.name,
            row.is_default,
            row.current_version,
            0 if version is None else version.word_count,
            None if version is None else version.published_at,
        )
        for row, version in cast("Sequence[tuple[WordList, WordListVersion | None]]", rows)
    ]


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
    """Return those of the named lists that the tenant does not have."""
    async with ledger.connection() as connection:
        rows = await connection.fetch(
            "SELECT id FROM word_list WHERE tenant = $1 AND id = ANY ($2::text[])", tenant, list(list_ids)
        )
    known = {row["id"] for row in rows}
    return [list_id for list_id in list_ids if list_id not in known]
