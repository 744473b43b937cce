"""Drafts of word lists: each list has at most one, which becomes its next version when it is published.

Whoever changes a draft may say which revision of it he has seen; so nobody overwrites what another has just written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from detectsched.db.audit import Actor, record
from detectsched.db.codec import options_from_json, options_to_json
from detectsched.db.connection import Connection, Ledger
from detectsched.db.models import WordListDraft
from detectsched.db.streams import chunks
from detectsched.db.word_lists import COLUMNS, PAGE, advance, columns_of, lock, word_of
from detectsched.detection import ListVersion
from detectsched.errors import Conflict, InvalidRequest, NotFound
from detectsched.wordlist import ListContent, ListOptions, Word

# ruff: noqa: S608 - what is put together are constants of this file

MOST_WORDS: Final = 100_000
"""Words of one list."""

_BEGIN: Final = """
INSERT INTO word_list_draft (tenant, list_id, name, is_default, options, base_version, revision, word_count, updated_by)
SELECT l.tenant, l.id, l.name, CASE WHEN $3 > 0 THEN l.is_default ELSE true END,
    coalesce(v.options, '{}'), $3, 0, coalesce(v.word_count, 0), $4
FROM word_list l
LEFT JOIN word_list_version v ON v.tenant = l.tenant AND v.list_id = l.id AND v.version = $3
WHERE l.tenant = $1 AND l.id = $2
ON CONFLICT (tenant, list_id) DO NOTHING
RETURNING list_id
"""
_COPY_CURRENT: Final = f"""
INSERT INTO draft_word (tenant, list_id, position, {", ".join(COLUMNS)})
SELECT tenant, list_id, position, {", ".join(COLUMNS)} FROM word WHERE tenant = $1 AND list_id = $2 AND version = $3
ORDER BY position
ON CONFLICT DO NOTHING
"""
_CHANGED: Final = """
UPDATE word_list_draft d SET name = coalesce($3, name), is_default = coalesce($4, is_default),
    options = coalesce($5, options) || CASE WHEN $7::bool IS NULL THEN '{}' ELSE jsonb_build_object('shadow', $7) END,
    revision = revision + 1, updated_at = now(), updated_by = $6,
    word_count = (SELECT count(*) FROM draft_word w WHERE w.tenant = d.tenant AND w.list_id = d.list_id)
WHERE tenant = $1 AND list_id = $2
RETURNING *
"""
_REMOVE: Final = """
DELETE FROM draft_word WHERE tenant = $1 AND list_id = $2
    AND (text, allow) IN (SELECT * FROM unnest($3::text[], $4::bool[]))
"""
_PUBLISH: Final = f"""
INSERT INTO word (tenant, list_id, version, position, {", ".join(COLUMNS)})
SELECT tenant, list_id, $3, row_number() OVER (ORDER BY position) - 1, {", ".join(COLUMNS)} FROM draft_word
WHERE tenant = $1 AND list_id = $2
"""


@dataclass(frozen=True, slots=True)
class DraftEdit:
    """What is to become of a draft; None: as it is.

    ``shadow`` wins over that of ``options``. ``replace`` drops the words first, then ``remove`` takes some away, then
    ``add`` appends some, each (text, allow) once. ``seen`` is the revision that the editor has seen; 0: there was none.
    """

    name: str | None = None
    is_default: bool | None = None
    options: ListOptions | None = None
    shadow: bool | None = None
    replace: bool = False
    remove: Sequence[tuple[str, bool]] = ()
    add: Sequence[Word] = ()
    seen: int | None = None


async def edit(ledger: Ledger, tenant: str, list_id: str, wanted: DraftEdit, *, by: Actor) -> WordListDraft:
    """Change a draft, which is begun as a copy of the current version where there is none.

    Raises:
        InvalidRequest: the id is none; the draft would have more than `MOST_WORDS` words.
        Conflict: somebody else has changed the draft since.
    """
    async with ledger.transaction() as connection:
        current = await lock(connection, tenant, list_id)
        if await connection.fetchval(_BEGIN, tenant, list_id, current, by.name) and not wanted.replace:
            await connection.execute(_COPY_CURRENT, tenant, list_id, current)
        await _check_seen(connection, tenant, list_id, wanted.seen)
        if wanted.replace:
            await connection.execute("DELETE FROM draft_word WHERE tenant = $1 AND list_id = $2", tenant, list_id)
        await _remove(connection, tenant, list_id, wanted.remove)
        await _add(connection, tenant, list_id, wanted.add)
        options = None if wanted.options is None else options_to_json(wanted.options)
        changed = await connection.fetchrow(
            _CHANGED, tenant, list_id, wanted.name, wanted.is_default, options, by.name, wanted.shadow
        )
        count = changed["word_count"]
        if count > MOST_WORDS:
            raise InvalidRequest(f"the draft would have {count} words; a list has at most {MOST_WORDS}", field="add")
        facts = {
            "replaced": wanted.replace,
            "removed": len(wanted.remove),
            "added": len(wanted.add),
            "word_count": count,
        }
        await record(connection, tenant, by, "edit_word_list_draft", list_id, facts)
    return WordListDraft(**changed)


async def draft(ledger: Ledger, tenant: str, list_id: str) -> WordListDraft:
    """Return the facts of a draft.

    Raises:
        NotFound: the list has none.
    """
    async with ledger.reading() as session:
        row = await session.get(WordListDraft, (tenant, list_id))
    if row is None:
        raise NotFound(f"there is no draft of a word list {list_id[:80]!r}: begin one with PUT or PATCH")
    return row


async def load_draft(ledger: Ledger, tenant: str, list_id: str) -> ListContent:
    """Return what a draft holds.

    Raises:
        NotFound: the list has none.
    """
    row = await draft(ledger, tenant, list_id)
    query = f"SELECT {', '.join(COLUMNS)} FROM draft_word WHERE tenant = $1 AND list_id = $2 ORDER BY position"
    words: list[Word] = []
    async for rows in chunks(ledger, query, tenant, list_id):
        words += map(word_of, rows)
    return ListContent(tuple(words), options_from_json(row.options))


async def discard(ledger: Ledger, tenant: str, list_id: str, *, by: Actor) -> None:
    """Drop a draft, and with it a list that was never published.

    Raises:
        NotFound: the list has none.
    """
    async with ledger.transaction() as connection:
        await _locked_draft(connection, tenant, list_id)
        await connection.execute("DELETE FROM word_list_draft WHERE tenant = $1 AND list_id = $2", tenant, list_id)
        await connection.execute(
            "DELETE FROM word_list WHERE tenant = $1 AND id = $2 AND current_version = 0", tenant, list_id
        )
        await record(connection, tenant, by, "discard_word_list_draft", list_id, {})


async def publish_draft(
    ledger: Ledger, tenant: str, list_id: str, *, by: Actor, expected: int | None = None, seen: int | None = None
) -> ListVersion:
    """Make a draft the current version, and drop it.

    ``expected`` None: the version from which the draft was begun must still be the current one.

    Raises:
        NotFound: the list has no draft.
        Conflict: the current version is another one, or the draft was changed since.
    """
    async with ledger.transaction() as connection:
        row = await _locked_draft(connection, tenant, list_id)
        await lock(connection, tenant, list_id, expected=row["base_version"] if expected is None else expected)
        await _check_seen(connection, tenant, list_id, seen)
        version = await advance(
            connection,
            tenant,
            list_id,
            name=row["name"],
            is_default=row["is_default"],
            options=options_from_json(row["options"]),
            words=row["word_count"],
            by=by,
        )
        await connection.execute(_PUBLISH, tenant, list_id, version)
        await connection.execute("DELETE FROM word_list_draft WHERE tenant = $1 AND list_id = $2", tenant, list_id)
    return ListVersion(list_id, version)


async def _locked_draft(connection: Connection, tenant: str, list_id: str) -> Any:
    """Return a draft's row after locking its list: nobody may have published or dropped it meanwhile.

    Raises:
        NotFound: the list has none.
    """
    await connection.fetchval("SELECT id FROM word_list WHERE tenant = $1 AND id = $2 FOR UPDATE", tenant, list_id)
    row = await connection.fetchrow("SELECT * FROM word_list_draft WHERE tenant = $1 AND list_id = $2", tenant, list_id)
    if row is None:
        raise NotFound(f"there is no draft of a word list {list_id[:80]!r}")
    return row


async def _check_seen(connection: Connection, tenant: str, list_id: str, seen: int | None) -> None:
    if seen is None:
        return
    revision = await connection.fetchval(
        "SELECT revision FROM word_list_draft WHERE tenant = $1 AND list_id = $2", tenant, list_id
    )
    if revision != seen:
        raise Conflict(
            f"the draft is at revision {revision}, not {seen}: somebody else has changed it; read it again",
            field="revision",
        )


async def _remove(connection: Connection, tenant: str, list_id: str, words: Sequence[tuple[str, bool]]) -> None:
    for first in range(0, len(words), PAGE):
        page = words[first : first + PAGE]
        await connection.execute(_REMOVE, tenant, list_id, [text for text, _ in page], [allow for _, allow in page])


async def _add(connection: Connection, tenant: str, list_id: str, words: Sequence[Word]) -> None:
    """Append words; one that is there already goes to the end."""
    place = await connection.fetchval(
        "SELECT coalesce(max(position), -1) + 1 FROM draft_word WHERE tenant = $1 AND list_id = $2", tenant, list_id
    )
    for first in range(0, len(words), PAGE):
        page = words[first : first + PAGE]
        if place:
            await _remove(connection, tenant, list_id, [(word.text, word.allow) for word in page])
        await connection.copy_records_to_table(
            "draft_word",
            records=[
                (tenant, list_id, position, *columns_of(word)) for position, word in enumerate(page, first + place)
            ],
            columns=["tenant", "list_id", "position", *COLUMNS],
        )
