"""The versions of word lists: which there are, going back to one, and what differs between two."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from detectsched.db.audit import Actor
from detectsched.db.codec import options_from_json
from detectsched.db.connection import Connection, Ledger
from detectsched.db.streams import chunks
from detectsched.db.word_lists import COLUMNS, advance, lock, word_of
from detectsched.detection import ListVersion
from detectsched.errors import NotFound
from detectsched.wordlist import ListOptions, Word

# ruff: noqa: S608 - what is put together are constants of this file

DRAFT: Final = 0
"""In place of a version's number: the draft."""
NONE: Final = -1
"""The same: nothing, of a list that was never published."""

_COPY: Final = f"""
INSERT INTO word (tenant, list_id, version, position, {", ".join(COLUMNS)})
SELECT tenant, list_id, $4, position, {", ".join(COLUMNS)} FROM word WHERE tenant = $1 AND list_id = $2 AND version = $3
"""

_OPTIONS: Final = """
SELECT options FROM word_list_version WHERE tenant = $1 AND list_id = $2 AND version = $3
UNION ALL
SELECT options FROM word_list_draft WHERE tenant = $1 AND list_id = $2 AND $3 = 0
"""


def _words_of(parameter: str) -> str:
    """Return a query of the words of a version, or of the draft; one that stands in it twice counts once."""
    return f"""
        SELECT DISTINCT ON (text, allow) text, allow, category, level, mode, tags, replacement FROM (
            SELECT position, {", ".join(COLUMNS)} FROM word
            WHERE tenant = $1 AND list_id = $2 AND version = {parameter}
            UNION ALL
            SELECT position, {", ".join(COLUMNS)} FROM draft_word
            WHERE tenant = $1 AND list_id = $2 AND {parameter} = 0
        ) w ORDER BY text, allow, position
    """


_DIFFERENCE: Final = f"""
WITH a AS ({_words_of("$3::int")}), b AS ({_words_of("$4::int")}), differing AS (
    SELECT coalesce(a.text, b.text) COLLATE "C" AS text, coalesce(a.allow, b.allow) AS allow,
        a.text IS NOT NULL AS had, b.text IS NOT NULL AS has,
        a.category AS old_category, a.level AS old_level, a.mode AS old_mode, a.tags AS old_tags,
        a.replacement AS old_replacement,
        b.category AS new_category, b.level AS new_level, b.mode AS new_mode, b.tags AS new_tags,
        b.replacement AS new_replacement
    FROM a FULL JOIN b ON a.text = b.text AND a.allow = b.allow
    WHERE a.text IS NULL OR b.text IS NULL
       OR (a.category, a.level, a.mode, a.tags, a.replacement)
          IS DISTINCT FROM (b.category, b.level, b.mode, b.tags, b.replacement)
)
"""
_COUNTS: Final = f"""
{_DIFFERENCE}
SELECT count(*) FILTER (WHERE NOT had) AS added, count(*) FILTER (WHERE NOT has) AS removed,
    count(*) FILTER (WHERE had AND has) AS changed FROM differing
"""
_PAGE: Final = f"""
{_DIFFERENCE}
SELECT * FROM differing WHERE $5::text IS NULL OR (text, allow) > ($5::text COLLATE "C", $6::bool)
ORDER BY text, allow LIMIT $7
"""


@dataclass(frozen=True, slots=True)
class VersionFacts:
    """One version of a list."""

    version: int
    word_count: int
    published_at: datetime
    published_by: str
    shadow: bool
    restores: int | None


@dataclass(frozen=True, slots=True)
class Change:
    """A word that one side has and the other has not (None), or has otherwise."""

    before: Word | None
    after: Word | None


@dataclass(frozen=True, slots=True)
class Difference:
    """What differs between two states of a list: how many words, some of them, and the options of both."""

    added: int
    removed: int
    changed: int
    changes: Sequence[Change]
    before: ListOptions
    after: ListOptions


async def versions(ledger: Ledger, tenant: str, list_id: str, *, before: int | None, limit: int) -> list[VersionFacts]:
    """Return up to ``limit`` versions, newest first, those of a list that was deleted as well."""
    async with ledger.connection() as connection:
        rows = await connection.fetch(
            "SELECT version, word_count, published_at, published_by, options, restores FROM word_list_version "
            "WHERE tenant = $1 AND list_id = $2 AND ($3::bigint IS NULL OR version < $3) "
            "ORDER BY version DESC LIMIT $4",
            tenant,
            list_id,
            before,
            limit,
        )
    return [
        VersionFacts(
            row["version"],
            row["word_count"],
            row["published_at"],
            row["published_by"],
            bool(row["options"].get("shadow")),
            row["restores"],
        )
        for row in rows
    ]


def words_of(ledger: Ledger, tenant: str, list_id: str, version: int) -> AsyncGenerator[Sequence[Any], None]:
    """Yield the words of a version, or of the `DRAFT`, in their order, as rows of `COLUMNS`, many at a time."""
    query = f"""
        SELECT {", ".join(COLUMNS)} FROM word WHERE tenant = $1 AND list_id = $2 AND version = $3 ORDER BY position
    """
    if version == DRAFT:
        query = f"""
            SELECT {", ".join(COLUMNS)} FROM draft_word WHERE tenant = $1 AND list_id = $2 AND $3 = 0 ORDER BY position
        """
    return chunks(ledger, query, tenant, list_id, version)


async def roll_back(
    ledger: Ledger, tenant: str, list_id: str, to: int, *, by: Actor, expected: int | None = None
) -> ListVersion:
    """Make what an earlier version holds, words and options, the next one; name and scope of the list stay.

    Raises:
        NotFound: there is no such list, or no such version of it.
        Conflict: the current version is not the ``expected`` one.
    """
    async with ledger.transaction() as connection:
        # Looked for first, so that a name which was mistyped does not get a row.
        row = await connection.fetchrow(
            "SELECT word_count, options FROM word_list_version WHERE tenant = $1 AND list_id = $2 AND version = $3",
            tenant,
            list_id,
            to,
        )
        if row is None:
            raise NotFound(f"there is no version {to} of a word list {list_id[:80]!r}")
        await lock(connection, tenant, list_id, expected=expected)
        version = await advance(
            connection,
            tenant,
            list_id,
            name=None,
            is_default=None,
            options=options_from_json(row["options"]),
            words=row["word_count"],
            by=by,
            restores=to,
        )
        await connection.execute(_COPY, tenant, list_id, to, version)
    return ListVersion(list_id, version)


async def difference(
    ledger: Ledger,
    tenant: str,
    list_id: str,
    old: int,
    new: int,
    *,
    after: tuple[str, bool] | None,
    limit: int,
) -> Difference:
    """Return what makes ``new`` of ``old``; `DRAFT` stands for the draft, and a version that never was is empty.

    The words are ordered by their code points; ``after`` is the last (text, allow) of the page before.
    """
    text, allow = after or (None, None)
    async with ledger.connection() as connection, connection.transaction(isolation="repeatable_read", readonly=True):
        counts = await connection.fetchrow(_COUNTS, tenant, list_id, old, new)
        rows = await connection.fetch(_PAGE, tenant, list_id, old, new, text, allow, limit)
        options = [await _options(connection, tenant, list_id, version) for version in (old, new)]
    return Difference(
        counts["added"], counts["removed"], counts["changed"], [_change(row) for row in rows], options[0], options[1]
    )


async def _options(connection: Connection, tenant: str, list_id: str, version: int) -> ListOptions:
    return options_from_json(await connection.fetchval(_OPTIONS, tenant, list_id, version) or {})


def _change(row: Any) -> Change:
    return Change(_side(row, "old") if row["had"] else None, _side(row, "new") if row["has"] else None)


def _side(row: Any, prefix: str) -> Word:
    names = ("category", "level", "mode", "tags", "replacement")
    return word_of({"text": row["text"], "allow": row["allow"]} | {name: row[f"{prefix}_{name}"] for name in names})
