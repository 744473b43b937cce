"""Dead letters: tasks that were given up on. They stay in the task table, without limit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from uuid import UUID

from sqlmodel import col, select

from detectsched.db.connection import Ledger
from detectsched.db.models import Task
from detectsched.task import TaskState


async def dead_letter_documents(ledger: Ledger, task_ids: Sequence[UUID]) -> list[str]:
    """Return the original's record, as JSON, of those of the given tasks that are dead."""
    query = select(Task).where(col(Task.id).in_(task_ids), Task.state == TaskState.DEAD.value)
    async with ledger.reading() as session:
        rows = (await session.exec(query)).all()
    return [_document(row) for row in rows]


def _document(row: Task) -> str:
    record = {
        "task_id": str(row.id),
        "mac": row.mac or row.object,
        "task_type": row.kind,
        "error": row.error_detail,
        "requeue_count": row.attempts,
        "created_at": row.created_at.isoformat(),
        "dead_at": None if row.finished_at is None else row.finished_at.isoformat(),
    }
    return json.dumps(record, ensure_ascii=False)
