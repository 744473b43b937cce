"""Marking tasks as running: each start mints a new fence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from detectsched.attempt import Refused, Started
from detectsched.db.codec import engine_result_from_json
from detectsched.db.connection import Ledger
from detectsched.db.data_keys import OpenKeys
from detectsched.db.sealed import opened_lines, opened_text
from detectsched.detection import ListVersion
from detectsched.errors import SealBroken
from detectsched.task import ENGINE_OCR, Delivery, TaskKind

# A delivery starts a task that waits, or one that runs under an older delivery (whose owner has lost it: only the
# holder of the pending entry in Redis is given a newer number). The time to live is for what waits: a task that was
# started in time is taken over also when it has passed meanwhile, else it would run for ever in nobody's hands.
# Its records say "processing" from the same moment on; what an engine has read in an earlier try stays as it is.
_START: Final = """
WITH started AS (
    UPDATE task t SET state = 'running', fence = t.fence + 1, delivery = g.number, started_at = now(), runner = $3
    FROM unnest($1::uuid[], $2::bigint[]) AS g (id, number)
    WHERE t.id = g.id
      AND (t.state = 'queued' AND t.delivery <= g.number AND t.expires_at > now()
           OR t.state = 'running' AND t.delivery < g.number)
      AND t.kind = ANY ($4::text[])
    RETURNING t.id, t.tenant, t.kind, t.engine, t.fence, t.attempts, t.text, t.blob, t.blob_sha256, t.media_type,
        t.data_key,
        (SELECT coalesce(jsonb_object_agg(w.id, w.current_version), '{}') FROM word_list w
         WHERE w.tenant = t.tenant AND w.id = ANY (t.word_lists) AND w.current_version > 0) AS lists,
        (SELECT jsonb_build_object('engine', e.engine, 'version', e.version, 'lines', e.lines, 'width', e.width,
                                   'height', e.height, 'seconds', e.seconds)
         FROM engine_record e WHERE e.task_id = t.id AND e.state = 'success') AS read
), reading AS (
    INSERT INTO engine_record (task_id, tenant, state)
    SELECT s.id, s.tenant, 'processing' FROM started s WHERE s.kind <> 'text' AND s.read IS NULL
    ON CONFLICT (task_id) DO UPDATE SET state = 'processing', error = NULL, created_at = now(), finished_at = NULL
), judging AS (
    INSERT INTO detection (task_id, tenant, state, fence) SELECT s.id, s.tenant, 'processing', s.fence FROM started s
    ON CONFLICT (task_id) DO UPDATE SET state = 'processing', fence = excluded.fence, error = NULL, created_at = now(),
        finished_at = NULL
)
SELECT * FROM started
"""

_EXPIRE: Final = """
UPDATE task SET state = 'expired', finished_at = now(), error_reason = 'expired',
    error_detail = 'not started within its time to live'
WHERE id = ANY ($1::uuid[]) AND state = 'queued' AND expires_at <= now()
"""

_STATES: Final = """
SELECT id, CASE WHEN kind = ANY ($2::text[]) THEN 'stale' ELSE 'unknown' END AS why
FROM task WHERE id = ANY ($1::uuid[]) AND state IN ('queued', 'running')
"""

_KINDS: Final = tuple(kind.value for kind in TaskKind)
"""What this release can examine; rows of another kind are not started, so that a newer release may run beside it."""


async def start(ledger: Ledger, deliveries: Sequence[Delivery], *, runner: str) -> list[Started | Refused]:
    """Mark tasks as running; one answer per delivery, in order.

    Of several deliveries of one task the newest is started, once: the others are stale.

    Raises:
        StoreUnavailable: nothing was started, or nobody knows; the deliveries stay pending and return by their lease.
    """
    by_id: dict[UUID, Delivery] = {}
    for delivery in deliveries:
        by_id[delivery.task_id] = max(by_id.get(delivery.task_id, delivery), delivery, key=lambda each: each.number)
    async with ledger.connection() as connection:
        rows = await connection.fetch(_START, list(by_id), [d.number for d in by_id.values()], runner, _KINDS)
        refused: dict[UUID, Refused] = {}
        begun = {UUID(str(row["id"])) for row in rows}
        missing = [task_id for task_id in by_id if task_id not in begun]
        if missing:
            await connection.execute(_EXPIRE, missing)
            still_open = await connection.fetch(_STATES, missing, _KINDS)
            refused = dict.fromkeys(missing, Refused.ENDED)
            refused |= {UUID(str(row["id"])): Refused(row["why"]) for row in still_open}
    keys = await ledger.data_keys.load((row["tenant"], row["data_key"]) for row in rows)
    started = {UUID(str(row["id"])): _started(row, by_id, keys) for row in rows}
    # Taken out as they are given out: nobody else may believe that he has started the same task.
    answers: list[Started | Refused] = []
    for delivery in deliveries:
        mine = started.pop(delivery.task_id, None) if by_id[delivery.task_id] == delivery else None
        answers.append(mine or refused.get(delivery.task_id, Refused.STALE))
    return answers


def _started(row: Any, by_id: dict[UUID, Delivery], keys: OpenKeys) -> Started:
    task_id = UUID(str(row["id"]))
    seal, text, read, broken = None, row["text"], row["read"], None
    try:
        seal = keys.seal(row["tenant"], row["data_key"], task_id)
        text = None if text is None else opened_text(seal, text)
        read = None if read is None else engine_result_from_json({**read, "lines": opened_lines(seal, read["lines"])})
    except SealBroken as error:
        # One that cannot be opened must not keep the others from starting.
        seal, text, read, broken = None, None, None, error
    return Started(
        delivery=by_id[task_id],
        tenant=row["tenant"],
        kind=TaskKind(row["kind"]),
        # A row that an older release accepted names none.
        engine=row["engine"] or (ENGINE_OCR if row["kind"] == TaskKind.IMAGE else None),
        fence=row["fence"],
        attempts=row["attempts"],
        text=text,
        blob=row["blob"],
        blob_sha256=row["blob_sha256"],
        media_type=row["media_type"],
        lists=tuple(ListVersion(list_id, version) for list_id, version in sorted(row["lists"].items())),
        read=read,
        seal=seal,
        broken=broken,
    )
