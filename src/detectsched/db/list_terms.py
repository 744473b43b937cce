"""How often the words and rules of a list were found: among its latest hits, so that the answer stays cheap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from detectsched.db.connection import Ledger

# ruff: noqa: S608 - what is put together are constants of this file

MOST_COUNTED: Final = 100_000
"""Latest hits of a list that are counted: some tenths of a second."""

_LATEST: Final = """
WITH latest AS MATERIALIZED (
    SELECT id, word, rule, shadow, task_id FROM hit WHERE tenant = $1 AND list_id = $2 ORDER BY id DESC LIMIT $3
)
"""
_FOUND: Final = f"""
{_LATEST}, counted AS (
    SELECT word, rule, count(*) FILTER (WHERE NOT shadow) AS hits, count(*) FILTER (WHERE shadow) AS shadow_hits,
        count(DISTINCT task_id) AS tasks, max(id) AS last FROM latest GROUP BY word, rule
)
SELECT c.word, c.rule, c.hits, c.shadow_hits, c.tasks, l.task_id AS last_task, count(*) OVER () AS terms
FROM counted c JOIN latest l ON l.id = c.last ORDER BY c.hits + c.shadow_hits DESC, c.word, c.rule LIMIT $4
"""
_SILENT: Final = f"""
{_LATEST}
SELECT w.text, count(*) OVER () AS words FROM word w
WHERE w.tenant = $1 AND w.list_id = $2 AND w.version = $4 AND NOT w.allow
  AND NOT EXISTS (SELECT FROM latest l WHERE l.word = w.text AND l.rule IS NULL)
ORDER BY w.position LIMIT $5
"""
_SINCE: Final = f"""
{_LATEST}, oldest AS (SELECT task_id FROM latest ORDER BY id LIMIT 1)
SELECT (SELECT count(*) FROM latest) AS counted,
    (SELECT t.created_at FROM task t JOIN oldest o ON o.task_id = t.id WHERE t.tenant = $1) AS since
"""


@dataclass(frozen=True, slots=True)
class Term:
    """A word, or a rule by its name, that was found."""

    word: str
    rule: str | None
    hits: int
    shadow_hits: int
    tasks: int
    last_task: UUID


@dataclass(frozen=True, slots=True)
class Terms:
    """What was found among the ``counted`` latest hits, and which words of the current version were not."""

    counted: int
    since: datetime | None
    found: int
    terms: Sequence[Term]
    silent: int
    silent_words: Sequence[str]


async def terms(ledger: Ledger, tenant: str, list_id: str, version: int, *, limit: int) -> Terms:
    """Return up to ``limit`` terms, the most frequent first, and up to as many words that were not found."""
    scope = tenant, list_id, MOST_COUNTED
    async with ledger.connection() as connection, connection.transaction(isolation="repeatable_read", readonly=True):
        about = await connection.fetchrow(_SINCE, *scope)
        found = await connection.fetch(_FOUND, *scope, limit)
        silent = await connection.fetch(_SILENT, *scope, version, limit)
    return Terms(
        counted=about["counted"],
        since=about["since"],
        found=found[0]["terms"] if found else 0,
        terms=[
            Term(row["word"], row["rule"], row["hits"], row["shadow_hits"], row["tasks"], UUID(str(row["last_task"])))
            for row in found
        ],
        silent=silent[0]["words"] if silent else 0,
        silent_words=[row["text"] for row in silent],
    )
