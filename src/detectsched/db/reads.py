"""What the API shows of tasks: one with everything, or many by filter, newest first, page after page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast
from uuid import UUID

from sqlalchemy.orm import QueryableAttribute, defer
from sqlmodel import col, select

from detectsched.db.connection import Ledger
from detectsched.db.models import DetectionRow, EngineRecord, HitRow, Task
from detectsched.db.sealed import open_rows
from detectsched.task import TaskState


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task with what was read and found, as far as it has come; ``hits`` are those in shadow mode as well."""

    task: Task
    engine: EngineRecord | None
    detection: DetectionRow | None
    hits: Sequence[HitRow]
    redriven_as: UUID | None = None
    """The task that is another try at this dead letter."""


@dataclass(frozen=True, slots=True)
class TaskFilter:
    """Which tasks to list; None means any. ``before`` is the last id of the page before."""

    state: TaskState | None = None
    lane: str | None = None
    mac: str | None = None
    object: str | None = None
    has_hits: bool | None = None
    before: UUID | None = None


async def get_task(ledger: Ledger, tenant: str, task_id: UUID) -> TaskView | None:
    """Return a tenant's task with its results; None when the tenant has no such task.

    Raises:
        SealBroken: it is encrypted at rest, and cannot be opened here.
    """
    query = (
        select(Task, EngineRecord, DetectionRow)
        .outerjoin(EngineRecord, col(EngineRecord.task_id) == Task.id)
        .outerjoin(DetectionRow, col(DetectionRow.task_id) == Task.id)
        .where(Task.id == task_id, Task.tenant == tenant)
    )
    async with ledger.reading() as session:
        found = (await session.exec(query)).first()
        if found is None:
            return None
        task, engine, detection = cast("tuple[Task, EngineRecord | None, DetectionRow | None]", found)
        hits: Sequence[HitRow] = ()
        if detection is not None and detection.hit_count + detection.shadow_count:
            of_task = select(HitRow).where(HitRow.task_id == task_id)
            hits = (await session.exec(of_task.order_by(col(HitRow.start_offset), col(HitRow.id)))).all()
        redriven_as: UUID | None = None
        if task.state == TaskState.DEAD.value:
            redriven_as = (await session.exec(select(Task.id).where(Task.redrive_of == task_id))).first()
    # Only now: a change of rows that a session holds would be written back by it.
    keys = await ledger.data_keys.load([(tenant, task.data_key)])
    open_rows(keys.seal(tenant, task.data_key, task_id), task, engine, hits)
    return TaskView(task, engine, detection, hits, redriven_as)


async def get_row(ledger: Ledger, tenant: str, task_id: UUID) -> Task | None:
    """Return a tenant's task without its payload; None when the tenant has no such task."""
    payload = defer(cast("QueryableAttribute[str | None]", Task.text), raiseload=True)
    query = select(Task).where(Task.id == task_id, Task.tenant == tenant).options(payload)
    async with ledger.reading() as session:
        return (await session.exec(query)).first()


async def task_state(ledger: Ledger, tenant: str, task_id: UUID) -> TaskState | None:
    """Return a tenant's task's state; None when the tenant has no such task."""
    async with ledger.connection() as connection:
        state = await connection.fetchval("SELECT state FROM task WHERE tenant = $1 AND id = $2", tenant, task_id)
    return None if state is None else TaskState(state)


async def ended_among(ledger: Ledger, task_ids: Sequence[UUID]) -> set[UUID]:
    """Return those of the given tasks, of whatever tenant, that are in a terminal state."""
    async with ledger.connection() as connection:
        rows = await connection.fetch(
            "SELECT id FROM task WHERE id = ANY ($1::uuid[]) AND state NOT IN ('queued', 'running')", list(task_ids)
        )
    return {UUID(str(row["id"])) for row in rows}


async def list_tasks(ledger: Ledger, tenant: str, wanted: TaskFilter, *, limit: int) -> list[tuple[Task, int]]:
    """Return up to ``limit`` tasks, newest first, each with its number of hits."""
    query = (
        select(Task, DetectionRow.hit_count)
        .outerjoin(DetectionRow, col(DetectionRow.task_id) == Task.id)
        .where(Task.tenant == tenant)
        .order_by(col(Task.id).desc())
        .limit(limit)
    )
    if wanted.state is not None:
        query = query.where(Task.state == wanted.state.value)
    if wanted.lane is not None:
        query = query.where(Task.lane == wanted.lane)
    if wanted.mac is not None:
        query = query.where(Task.mac == wanted.mac)
    if wanted.object is not None:
        query = query.where(Task.object == wanted.object)
    if wanted.has_hits is True:
        query = query.where(col(DetectionRow.hit_count) > 0)
    if wanted.has_hits is False:
        query = query.where((col(DetectionRow.hit_count) == 0) | col(DetectionRow.hit_count).is_(None))
    if wanted.before is not None:
        query = query.where(col(Task.id) < wanted.before)
    async with ledger.reading() as session:
        rows = (await session.exec(query)).all()
    return [(task, hits or 0) for task, hits in rows]
