"""Why a task waits."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from fastapi import APIRouter

from detectsched.api.auth import Reader
from detectsched.api.context import ApiContext, Context
from detectsched.api.explanation import (
    NOT_QUEUED_YET,
    Obstacle,
    Reason,
    as_lifo,
    estimated_start_seconds,
    reasons,
    summary,
    why_not_serving,
)
from detectsched.api.fields import TaskId
from detectsched.api.openapi import problems
from detectsched.api.states import Explanation, Places, Scores, ServingRunner, WaitReason
from detectsched.db import control, reads
from detectsched.db.models import Task
from detectsched.errors import GenerationLost, NotFound
from detectsched.queueing.queue import (
    Capacity,
    Standing,
    WorkerRecord,
    aging_score,
    capacity_of,
    paused_lane,
    paused_subject,
    paused_tenant,
)
from detectsched.settings import Order
from detectsched.task import QueueId, TaskState

router = APIRouter(prefix="/api/tasks", tags=["tasks"])


@router.get("/{task_id:uuid}/explain", responses=problems(404))
async def explain_task(task_id: TaskId, context: Context, caller: Reader) -> Explanation:
    """Explain why a task waits: every obstacle, its place, its scores, the lane's runners, and when it should start."""
    row = await _row(context, caller.tenant, task_id)
    standing = None
    workers = await context.queue.registry.workers()
    if row.state == TaskState.QUEUED.value:
        standing = await _standing(context, task_id)
        if standing is None:
            # Gone from Redis may mean that it ended in between.
            row = await _row(context, caller.tenant, task_id)
    capacity = capacity_of(row.lane, workers, context.settings.scheduler)
    waits_for = await _reasons(context, row, standing, capacity, workers)
    return Explanation(
        task_id=row.id,
        state=TaskState(row.state),
        lane=row.lane,
        summary=_summary(row, waits_for),
        reasons=[WaitReason(obstacle=r.obstacle, detail=r.detail, until=_moment(r.until_ms)) for r in waits_for],
        places=_places(standing),
        scores=_scores(context, standing),
        estimated_start_seconds=_estimate(context, standing, capacity),
        runners=[_runner(worker, row.lane, capacity) for worker in workers if worker.slots_of(row.lane) > 0],
    )


async def _row(context: ApiContext, tenant: str, task_id: UUID) -> Task:
    row = await reads.get_row(context.ledger, tenant, task_id)
    if row is None:
        raise NotFound("there is no such task")
    return row


async def _standing(context: ApiContext, task_id: UUID) -> Standing | None:
    try:
        standing = await context.queue.views.standing(task_id)
    except GenerationLost:
        return None
    if standing is not None and context.settings.scheduler.order is Order.LIFO:
        return as_lifo(standing)
    return standing


async def _reasons(
    context: ApiContext, row: Task, standing: Standing | None, capacity: Capacity, workers: list[WorkerRecord]
) -> list[Reason]:
    if row.state != TaskState.QUEUED.value:
        return []
    if standing is None:
        return [NOT_QUEUED_YET]
    names = {
        Obstacle.LANE_PAUSED: paused_lane(row.lane),
        Obstacle.TENANT_PAUSED: paused_tenant(row.tenant),
        Obstacle.DEVICE_PAUSED: paused_subject(QueueId.parse(row.queue)),
    }
    notes: dict[Obstacle, str] = {}
    if standing.paused_lane_ms or standing.paused_tenant_ms or standing.paused_subject_ms:
        rows = await control.paused_among(context.ledger, list(names.values()))
        notes = {obstacle: rows[name].reason for obstacle, name in names.items() if name in rows}
    return reasons(standing, capacity, workers, notes=notes)


def _summary(row: Task, waits_for: list[Reason]) -> str:
    match TaskState(row.state):
        case TaskState.QUEUED:
            return summary(waits_for)
        case TaskState.RUNNING:
            stopping = "; it is being stopped, since it was cancelled" if row.cancel_requested else ""
            return f"It does not wait: it runs on {row.runner} since {row.started_at:%Y-%m-%d %H:%M:%S} UTC{stopping}."
        case ended:
            why = f": {row.error_detail}" if row.error_detail else ""
            return f"It does not wait: it has ended, {ended.value}{why}."


def _places(standing: Standing | None) -> Places | None:
    if standing is None or standing.state != "queued":
        return None
    return Places.model_validate(standing)


def _scores(context: ApiContext, standing: Standing | None) -> Scores | None:
    if standing is None:
        return None
    scheduler = context.settings.scheduler
    score = aging_score(
        standing.head_created_ms,
        standing.now_ms,
        max_wait_seconds=scheduler.aging_max_wait_seconds,
        weight=scheduler.aging_weight,
    )
    return Scores(
        policy=scheduler.policy,
        virtual_key=standing.key,
        aging_score=round(score, 3),
        fifo_sequence=standing.head_sequence,
    )


def _estimate(context: ApiContext, standing: Standing | None, capacity: Capacity) -> float | None:
    if standing is None or standing.state not in {"queued", "deferred", "streamed"}:
        return None
    seconds = estimated_start_seconds(standing, capacity, batch=context.settings.scheduler.batch_size)
    return None if seconds is None else round(seconds, 3)


def _runner(worker: WorkerRecord, lane: str, capacity: Capacity) -> ServingRunner:
    reason = why_not_serving(worker, capacity)
    return ServingRunner(
        name=worker.name,
        label=worker.label,
        serving=not reason,
        reason=reason,
        slots=worker.slots_of(lane),
        active_tasks=worker.active_tasks,
    )


def _moment(ms: int | None) -> datetime | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)
