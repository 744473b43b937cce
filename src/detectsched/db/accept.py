"""Accepting tasks: what is committed, and what a committed row says to the queues."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

from detectsched.db.connection import Connection, Ledger
from detectsched.db.sealed import sealed_text
from detectsched.sealing import Seal
from detectsched.task import Entitlement, QueuedTask, QueueId, TaskKind, TaskState


@dataclass(frozen=True, slots=True)
class NewTask:
    """A task to be accepted.

    ``word_lists`` None means the object's own lists, else the tenant's default lists. Either ``text`` or ``blob`` is
    set: a key of the blob store, whose content ``engine`` makes text of. ``object`` identifies an object,
    ``object_name`` is what its sender called it. ``ttl_seconds`` counts from ``not_before`` where that is later than
    now. With a ``seal`` the text is encrypted at rest; the blob and the hash of the request must be so already.
    """

    id: UUID
    tenant: str
    kind: TaskKind
    lane: str
    queue: QueueId
    cost: float
    ttl_seconds: int
    mac: str | None = None
    object: str | None = None
    object_name: str | None = None
    engine: str | None = None
    word_lists: tuple[str, ...] | None = None
    idempotency_key: str | None = None
    request_hash: bytes | None = None
    text: str | None = None
    blob: str | None = None
    blob_sha256: bytes | None = None
    media_type: str | None = None
    file_name: str | None = None
    not_before: datetime | None = None
    callback_url: str | None = None
    request_id: str | None = None
    seal: Seal | None = None


@dataclass(frozen=True, slots=True)
class AcceptedTask:
    """A committed row. ``is_new`` is False when the Idempotency-Key was known: then it is the earlier task."""

    task: QueuedTask
    state: TaskState
    is_new: bool
    request_hash: bytes | None
    entitlement: Entitlement
    created_at: datetime
    expires_at: datetime
    not_before: datetime | None = None
    runner: str | None = None
    data_key: str | None = None


FACTS: Final = """
    t.id, t.tenant, t.lane, t.queue, t.mac, t.state, t.cost, t.sequence, t.created_at, t.expires_at, t.not_before,
    t.delivery, t.attempts, t.request_hash, t.runner, t.data_key, coalesce(d.weight, n.device_weight) AS weight,
    coalesce(d.in_flight, 0) AS in_flight, coalesce(d.rate, 0) AS rate, coalesce(d.burst, 0) AS burst,
    n.weight AS tenant_weight, n.rate AS tenant_rate, n.burst AS tenant_burst
"""

ENTITLED: Final = """
    JOIN tenant n ON n.id = t.tenant
    LEFT JOIN device d ON d.tenant = t.tenant AND d.mac = t.mac
"""

# ruff: noqa: S608 - the parts put together are constants of this file
_ACCEPT: Final = f"""
WITH given AS (
    SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
                         $8::float8[], $9::int[], $10::text[], $11::text[], $12::bytea[], $13::text[], $14::text[],
                         $15::bytea[], $16::text[], $17::text[], $18::timestamptz[], $19::text[], $20::text[],
                         $21::text[], $22::text[], $23::text[])
    WITH ORDINALITY AS g (id, tenant, kind, lane, queue, mac, object, cost, ttl, lists, idempotency_key, request_hash,
                          text, blob, blob_sha256, media_type, file_name, not_before, object_name, engine,
                          callback_url, request_id, data_key, place)
), seen AS (
    -- A device's row is touched once a minute, not once a task.
    INSERT INTO device (tenant, mac)
    SELECT DISTINCT g.tenant, g.mac FROM given g
    WHERE g.mac IS NOT NULL AND NOT EXISTS (
        SELECT FROM device d
        WHERE d.tenant = g.tenant AND d.mac = g.mac AND d.last_seen_at > now() - interval '1 minute')
    ORDER BY 1, 2
    ON CONFLICT (tenant, mac) DO UPDATE SET last_seen_at = now()
), t AS (
    INSERT INTO task (id, tenant, kind, lane, queue, mac, object, cost, not_before, expires_at, word_lists,
                      idempotency_key, request_hash, text, blob, blob_sha256, media_type, file_name, object_name,
                      engine, callback_url, request_id, data_key)
    SELECT g.id, g.tenant, g.kind, g.lane, g.queue, g.mac, g.object, g.cost,
           CASE WHEN g.not_before > now() THEN g.not_before END,
           greatest(now(), g.not_before) + g.ttl * interval '1 second',
           CASE WHEN g.lists IS NULL
                THEN coalesce((SELECT o.word_lists FROM object o WHERE o.tenant = g.tenant AND o.name = g.object),
                              (SELECT array_agg(w.id ORDER BY w.id) FROM word_list w
                               WHERE w.tenant = g.tenant AND w.is_default AND w.deleted_at IS NULL),
                              '{{}}')
                ELSE string_to_array(g.lists, ',') END,
           g.idempotency_key, g.request_hash, g.text, g.blob, g.blob_sha256, g.media_type, g.file_name,
           g.object_name, g.engine, g.callback_url, g.request_id, g.data_key
    FROM given g ORDER BY g.place
    ON CONFLICT (tenant, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
    RETURNING *
)
SELECT {FACTS} FROM t {ENTITLED}
"""

_BY_KEY: Final = f"""
SELECT t.idempotency_key, {FACTS} FROM task t {ENTITLED}
WHERE (t.tenant, t.idempotency_key) IN (SELECT * FROM unnest($1::text[], $2::text[]))
"""


async def accept(ledger: Ledger, tasks: Sequence[NewTask]) -> list[AcceptedTask]:
    """Commit rows for many tasks at once, in the order given; a known Idempotency-Key yields its earlier task.

    Raises:
        StoreUnavailable: nothing was committed, or nobody knows; the same call may be made again.
    """
    # One statement is one transaction: nothing is to be begun and committed around it.
    async with ledger.connection() as connection:
        rows = await connection.fetch(_ACCEPT, *_columns(tasks))
        accepted = {row["id"]: accepted_row(row, is_new=True) for row in rows}
        repeats = [(task.tenant, task.idempotency_key) for task in tasks if task.id not in accepted]
        earlier = await _by_key(connection, repeats) if repeats else {}
    return [accepted.get(task.id) or earlier[task.tenant, task.idempotency_key] for task in tasks]


async def accepted_before(ledger: Ledger, keys: Sequence[tuple[str, str]]) -> list[AcceptedTask | None]:
    """Return, for each (tenant, Idempotency-Key), the task that was accepted under it, or None."""
    async with ledger.connection() as connection:
        found = await _by_key(connection, keys)
    return [found.get(key) for key in keys]


async def _by_key(
    connection: Connection, keys: Sequence[tuple[str, str | None]]
) -> dict[tuple[str, str | None], AcceptedTask]:
    rows = await connection.fetch(_BY_KEY, [tenant for tenant, _ in keys], [key for _, key in keys])
    return {(row["tenant"], row["idempotency_key"]): accepted_row(row, is_new=False) for row in rows}


def _columns(tasks: Sequence[NewTask]) -> list[list[Any]]:
    return [
        [task.id for task in tasks],
        [task.tenant for task in tasks],
        [task.kind.value for task in tasks],
        [task.lane for task in tasks],
        [str(task.queue) for task in tasks],
        [task.mac for task in tasks],
        [task.object for task in tasks],
        [task.cost for task in tasks],
        [task.ttl_seconds for task in tasks],
        [None if task.word_lists is None else ",".join(task.word_lists) for task in tasks],
        [task.idempotency_key for task in tasks],
        [task.request_hash for task in tasks],
        [None if task.text is None else sealed_text(task.seal, task.text) for task in tasks],
        [task.blob for task in tasks],
        [task.blob_sha256 for task in tasks],
        [task.media_type for task in tasks],
        [task.file_name for task in tasks],
        [task.not_before for task in tasks],
        [task.object_name for task in tasks],
        [task.engine for task in tasks],
        [task.callback_url for task in tasks],
        [task.request_id for task in tasks],
        [None if task.seal is None else task.seal.key.id for task in tasks],
    ]


# Many rows are of few queues, and say the same of them: one object for all is cheaper to make and to compare.
_queue_of = lru_cache(maxsize=4096)(QueueId.parse)
_entitlement = lru_cache(maxsize=4096)(Entitlement)


def accepted_row(row: Any, *, is_new: bool) -> AcceptedTask:
    """Return the task that a row of `FACTS` tells of."""
    return AcceptedTask(
        task=QueuedTask(
            id=UUID(str(row["id"])),
            queue=_queue_of(row["queue"]),
            lane=row["lane"],
            sequence=row["sequence"],
            cost=row["cost"],
            created_ms=_milliseconds(row["created_at"]),
            expires_ms=_milliseconds(row["expires_at"]),
            not_before_ms=_milliseconds(row["not_before"]) if row["not_before"] else 0,
            delivery=row["delivery"],
            attempts=row["attempts"],
            mac=row["mac"],
        ),
        state=TaskState(row["state"]),
        is_new=is_new,
        request_hash=row["request_hash"],
        entitlement=_entitlement(
            row["in_flight"],
            row["weight"],
            row["rate"],
            row["burst"],
            row["tenant_weight"],
            row["tenant_rate"],
            row["tenant_burst"],
        ),
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        not_before=row["not_before"],
        runner=row["runner"],
        data_key=row["data_key"],
    )


def _milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
