"""Shows what the ledger keeps in the shapes that callers get."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.responses import Response

from detectsched.api.schemas import (
    Box,
    Hit,
    Judgement,
    Line,
    ListVersion,
    Reading,
    RecordState,
    SubmittedTask,
    TaskDetail,
    TaskError,
    TaskSummary,
    box_of,
)
from detectsched.api.submission import Receipt
from detectsched.db.models import DetectionRow, EngineRecord, HitRow, Task
from detectsched.db.reads import TaskView
from detectsched.detection import Hit as Found
from detectsched.matching.spans import prominent_among
from detectsched.task import TERMINAL_STATES


def submitted(receipt: Receipt) -> SubmittedTask:
    """Show what a sender gets."""
    return SubmittedTask.model_validate(receipt)


def answer(receipt: Receipt, response: Response) -> SubmittedTask:
    """Answer a submission: 202, or 200 for one that was accepted before and has ended."""
    response.headers["Location"] = f"/api/tasks/{receipt.task_id}"
    if receipt.replayed:
        response.headers["Idempotency-Replayed"] = "true"
        if receipt.state in TERMINAL_STATES:
            response.status_code = 200
    return submitted(receipt)


def summary(task: Task, hit_count: int) -> TaskSummary:
    """Show a task as lists do."""
    return TaskSummary(**_facts(task, hit_count))


def detail(view: TaskView) -> TaskDetail:
    """Show everything of a task."""
    task, detection = view.task, view.detection
    return TaskDetail(
        **_facts(task, detection.hit_count if detection else 0),
        cost=task.cost,
        word_lists=task.word_lists,
        media_type=task.media_type,
        file_name=task.file_name,
        reading=_reading(view.engine),
        detection=_judgement(detection),
        judged_by=[ListVersion(**version) for version in detection.lists] if detection else [],
        top_level=detection.top_level if detection else 0,
        hits=hits_of([row for row in view.hits if not row.shadow]),
        shadow_hits=hits_of([row for row in view.hits if row.shadow]),
        hits_cut=detection.hits_cut if detection else False,
        redrive_of=task.redrive_of,
        redriven_as=view.redriven_as,
        callback_url=task.callback_url,
    )


def _facts(task: Task, hit_count: int) -> dict[str, Any]:
    reason = task.error_reason
    return {
        "id": task.id,
        "kind": task.kind,
        "lane": task.lane,
        "state": task.state,
        "mac": task.mac,
        "object": task.object,
        "object_name": task.object_name or task.object,
        "engine": task.engine,
        "created_at": task.created_at,
        "not_before": task.not_before,
        "expires_at": task.expires_at,
        "started_at": task.started_at,
        "finished_at": task.finished_at,
        "attempts": task.attempts,
        "cancel_requested": task.cancel_requested,
        "error": None if reason is None else TaskError(reason=reason, detail=task.error_detail or ""),
        "hit_count": hit_count,
    }


def _reading(record: EngineRecord | None) -> Reading | None:
    if record is None:
        return None
    return Reading(
        state=RecordState(record.state),
        error=record.error,
        started_at=record.created_at,
        finished_at=record.finished_at,
        engine=record.engine,
        version=record.version,
        text=record.text or "",
        lines=[Line(text=line["text"], box=box_of(line["box"]), score=line["score"]) for line in record.lines],
        width=record.width,
        height=record.height,
        seconds=record.seconds,
    )


def _judgement(row: DetectionRow | None) -> Judgement | None:
    if row is None:
        return None
    return Judgement(
        state=RecordState(row.state), error=row.error, started_at=row.created_at, finished_at=row.finished_at
    )


def hits_of(rows: Sequence[HitRow]) -> list[Hit]:
    """Show hits."""
    shown = prominent_among([(row.start_offset, row.end_offset, row.level) for row in rows])
    return [_hit(row, covered=place not in shown) for place, row in enumerate(rows)]


def hits_found(hits: Sequence[Found]) -> list[Hit]:
    """Show hits that are kept nowhere."""
    shown = prominent_among([(hit.start, hit.end, hit.level) for hit in hits])
    return [_found(hit, covered=place not in shown) for place, hit in enumerate(hits)]


def _found(hit: Found, *, covered: bool) -> Hit:
    return Hit(
        word=hit.word,
        matched=hit.matched,
        category=hit.category,
        level=hit.level,
        start=hit.start,
        end=hit.end,
        list=ListVersion(id=hit.list.list_id, version=hit.list.version),
        box=None if hit.box is None else Box.model_validate(hit.box),
        rule=hit.rule,
        tags=hit.tags,
        replacement=hit.replacement,
        covered=covered,
    )


def _hit(row: HitRow, *, covered: bool) -> Hit:
    return Hit(
        word=row.word,
        matched=row.matched,
        category=row.category,
        level=row.level,
        start=row.start_offset,
        end=row.end_offset,
        list=ListVersion(id=row.list_id, version=row.list_version),
        box=box_of(row.box),
        rule=row.rule,
        tags=row.tags,
        replacement=row.replacement,
        covered=covered,
    )
