"""Driving dead letters again, and purging them (docs/decisions/0010-redrive.md).

A re-drive is a new task that names the letter: the letter stays as it ended. Work is done chunk by chunk, each one
transaction; the first holds the audit entry, so that nothing is done of which nothing is told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from detectsched.db.accept import ENTITLED, FACTS, AcceptedTask, accepted_row
from detectsched.db.audit import Actor, record
from detectsched.db.connection import Connection, Ledger
from detectsched.db.dead_letters import MATCHES, LetterFilter, begin_change
from detectsched.db.sealed import opened_text, sealed_text
from detectsched.db.statistics import count_tasks
from detectsched.task import new_task_id


@dataclass(frozen=True, slots=True)
class Plan:
    """What an action on dead letters is to do: at most ``count`` of those that match and died before ``as_of``."""

    tenant: str
    wanted: LetterFilter
    matched: int
    count: int
    as_of: datetime
    by: Actor
    rate_per_second: float | None = None

    def bounded(self) -> LetterFilter:
        """Return the filter without what died since it was counted."""
        until = self.as_of if self.wanted.until is None else min(self.as_of, self.wanted.until)
        return replace(self.wanted, until=until)


# The oldest first, by acceptance: an object's letters run again in the order in which they were accepted.
# ruff: noqa: S608 - the parts put together are constants of this file and its neighbours
_CHOOSE: Final = f"SELECT t.id FROM task t WHERE {MATCHES} ORDER BY t.sequence LIMIT $9"

# The time to live is as long as the letter's was.
_REDRIVE: Final = f"""
WITH t AS (
    INSERT INTO task (id, tenant, kind, lane, queue, mac, object, cost, not_before, expires_at, word_lists, text, blob,
                      blob_sha256, media_type, file_name, object_name, engine, callback_url, data_key, redrive_of)
    SELECT g.new_id, d.tenant, d.kind, d.lane, d.queue, d.mac, d.object, d.cost,
           CASE WHEN g.not_before > now() THEN g.not_before END,
           greatest(now(), g.not_before) + (d.expires_at - greatest(d.created_at, d.not_before)),
           d.word_lists, coalesce(g.text, d.text), d.blob, d.blob_sha256, d.media_type, d.file_name, d.object_name,
           d.engine, d.callback_url, d.data_key, d.id
    FROM unnest($1::uuid[], $2::uuid[], $3::timestamptz[], $4::text[]) WITH ORDINALITY
        AS g (old_id, new_id, not_before, text, place)
    JOIN task d ON d.id = g.old_id
    ORDER BY g.place
    RETURNING *
)
SELECT {FACTS} FROM t {ENTITLED} ORDER BY t.sequence
"""

_SEALED: Final = """
SELECT id, text, data_key FROM task
WHERE tenant = $1 AND id = ANY ($2::uuid[]) AND text IS NOT NULL AND data_key IS NOT NULL
"""

# A letter that was itself a re-drive goes with the letters before it: they were the same image's or text's, and share
# its blob.
_DOOMED: Final = """
WITH RECURSIVE doomed AS (
    SELECT t.id, t.redrive_of FROM task t WHERE t.id = ANY ($1::uuid[])
    UNION ALL
    SELECT a.id, a.redrive_of FROM task a JOIN doomed d ON a.id = d.redrive_of
)
SELECT id FROM doomed
"""

_PURGE: Final = "DELETE FROM task WHERE id = ANY ($1::uuid[]) RETURNING blob"


async def redrive_chunk(ledger: Ledger, plan: Plan, *, done: int, limit: int) -> list[AcceptedTask]:
    """Make new tasks of the next dead letters of a plan, of which ``done`` are done; an empty list: nothing is left.

    With a rate, each may start no earlier than its place in the whole says; so nothing needs to run meanwhile.
    """
    async with ledger.transaction() as connection:
        chosen = await _choose(connection, plan, done=done, limit=limit, action="redrive_dead_letters")
        starts = [_start_of(plan, done + place) for place in range(len(chosen))]
        new_ids = {old_id: new_task_id() for old_id in chosen}
        texts = await _sealed_anew(ledger, connection, plan.tenant, new_ids)
        rows = await connection.fetch(
            _REDRIVE, chosen, list(new_ids.values()), starts, [texts.get(old_id) for old_id in chosen]
        )
    return [accepted_row(row, is_new=True) for row in rows]


async def _sealed_anew(
    ledger: Ledger, connection: Connection, tenant: str, new_ids: Mapping[UUID, UUID]
) -> dict[UUID, str]:
    """Return, by the id of their letters, the texts that are encrypted at rest: a seal holds for one task alone."""
    rows = await connection.fetch(_SEALED, tenant, list(new_ids))
    keys = await ledger.data_keys.load([(tenant, row["data_key"]) for row in rows], connection)
    texts = {}
    for row in rows:
        old_id = UUID(str(row["id"]))
        text = opened_text(keys.seal(tenant, row["data_key"], old_id), row["text"])
        texts[old_id] = sealed_text(keys.seal(tenant, row["data_key"], new_ids[old_id]), text)
    return texts


async def purge_chunk(ledger: Ledger, plan: Plan, *, done: int, limit: int) -> tuple[int, list[str]]:
    """Remove the next dead letters of a plan; return how many, and the blobs that nothing names any more."""
    async with ledger.transaction() as connection:
        chosen = await _choose(connection, plan, done=done, limit=limit, action="purge_dead_letters")
        doomed = [UUID(str(row["id"])) for row in await connection.fetch(_DOOMED, chosen)]
        # They stay in the statistics, also where they died a moment ago.
        await count_tasks(connection, doomed)
        rows = await connection.fetch(_PURGE, doomed)
    return len(chosen), sorted({row["blob"] for row in rows if row["blob"] is not None})


async def _choose(connection: Connection, plan: Plan, *, done: int, limit: int, action: str) -> Sequence[Any]:
    await begin_change(connection, plan.tenant)
    if done == 0:
        detail: dict[str, Any] = {"filter": plan.wanted.document(), "matched": plan.matched, "count": plan.count}
        if plan.rate_per_second is not None:
            detail["rate_per_second"] = plan.rate_per_second
        await record(connection, plan.tenant, plan.by, action, "dead_letters", detail)
    limit = min(limit, plan.count - done)
    rows = await connection.fetch(_CHOOSE, *plan.bounded().columns(plan.tenant), limit)
    return [UUID(str(row["id"])) for row in rows]


def _start_of(plan: Plan, place: int) -> datetime | None:
    if plan.rate_per_second is None:
        return None
    return plan.as_of + timedelta(seconds=place / plan.rate_per_second)
