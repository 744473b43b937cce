"""Transitions that no runner makes: cancel, expire, recover what a lost runner left.

Each is a compare-and-set on the state, so that whoever is late changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from detectsched.db.connection import Ledger
from detectsched.task import TaskState

_CANCEL: Final = """
UPDATE task SET
    cancel_requested = true,
    state = CASE WHEN state = 'queued' THEN 'cancelled' ELSE state END,
    finished_at = CASE WHEN state = 'queued' THEN now() END
WHERE tenant = $1 AND id = $2 AND state IN ('queued', 'running')
RETURNING state
"""

_EXPIRE_DUE: Final = """
UPDATE task SET state = 'expired', finished_at = now(), error_reason = 'expired',
    error_detail = 'not started within its time to live'
WHERE id IN (SELECT id FROM task WHERE state = 'queued' AND expires_at <= now()
             ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED)
RETURNING id
"""

_EXPIRE: Final = """
UPDATE task SET state = 'expired', finished_at = now(), error_reason = 'expired',
    error_detail = 'not started within its time to live'
WHERE id = ANY ($1::uuid[]) AND state = 'queued'
"""

_GIVE_UP: Final = """
UPDATE task SET state = 'dead', finished_at = now(), error_reason = $2, error_detail = $3
WHERE id = ANY ($1::uuid[]) AND state = 'queued' RETURNING id
"""

# A row may run under an older delivery than the one that was lost: its runner never learned that it had started it and
# gave it back, and the next one died before it did. Only a newer delivery has an owner.
_RECOVER: Final = """
WITH lost AS (
    UPDATE task SET
        state = CASE WHEN cancel_requested THEN 'cancelled' WHEN attempts + 1 >= $2 THEN 'dead' ELSE 'queued' END,
        finished_at = CASE WHEN cancel_requested OR attempts + 1 >= $2 THEN now() END,
        attempts = attempts + 1,
        error_reason = 'runner_lost',
        error_detail = 'runner ' || coalesce(runner, '?') || ' was silent for a lease while it worked on this task',
        runner = NULL
    FROM unnest($1::uuid[], $3::bigint[]) AS g (id, number)
    WHERE task.id = g.id AND state = 'running' AND delivery <= g.number
    RETURNING task.id, error_detail AS error, CASE state WHEN 'cancelled' THEN 'cancelled' ELSE 'failed' END AS record
), read AS (
    UPDATE engine_record r SET state = l.record, error = l.error, finished_at = now()
    FROM lost l WHERE r.task_id = l.id AND r.state = 'processing'
)
UPDATE detection d SET state = l.record, error = l.error, finished_at = now()
FROM lost l WHERE d.task_id = l.id AND d.state = 'processing'
"""

_STATES: Final = "SELECT id, state FROM task WHERE id = ANY ($1::uuid[])"


async def cancel(ledger: Ledger, tenant: str, task_id: UUID) -> TaskState | None:
    """Cancel a waiting task, or ask a running one to stop.

    Returns the state after it: CANCELLED, RUNNING (its runner must stop first), or None when there is no open task of
    that id in the tenant.
    """
    async with ledger.connection() as connection:
        state = await connection.fetchval(_CANCEL, tenant, task_id)
    return None if state is None else TaskState(state)


async def expire_due(ledger: Ledger, *, limit: int) -> list[UUID]:
    """Expire waiting tasks whose time to live has passed; return them."""
    async with ledger.connection() as connection:
        return [UUID(str(row["id"])) for row in await connection.fetch(_EXPIRE_DUE, limit)]


async def expire(ledger: Ledger, task_ids: Sequence[UUID]) -> None:
    """Record what dispatch.lua decided: these waiting tasks have expired."""
    async with ledger.connection() as connection:
        await connection.execute(_EXPIRE, list(task_ids))


async def give_up(ledger: Ledger, task_ids: Sequence[UUID], *, reason: str, detail: str) -> list[UUID]:
    """Make waiting tasks dead letters; return those that became one now."""
    if not task_ids:
        return []
    async with ledger.connection() as connection:
        rows = await connection.fetch(_GIVE_UP, list(task_ids), reason, detail)
    return [UUID(str(row["id"])) for row in rows]


async def recover(ledger: Ledger, lost: Sequence[tuple[UUID, int]], *, max_attempts: int) -> dict[UUID, TaskState]:
    """Take tasks, given as (id, delivery), from owners that fell silent; return where each of them stands now.

    A running one has spent an attempt: it waits again, or is dead when that was the last. One that was never started
    still waits, and one that its owner finished after all is terminal: both are left as they are.
    """
    ids, numbers = [task_id for task_id, _ in lost], [number for _, number in lost]
    async with ledger.transaction() as connection:
        await connection.execute(_RECOVER, ids, max_attempts, numbers)
        rows = await connection.fetch(_STATES, ids)
    return {UUID(str(row["id"])): TaskState(row["state"]) for row in rows}
