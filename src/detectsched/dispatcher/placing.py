"""From a ledger row to its place in the queues."""

from __future__ import annotations

from dataclasses import replace

from detectsched.db.accept import AcceptedTask
from detectsched.queueing.queue import Placement
from detectsched.settings import SchedulerSettings
from detectsched.task import TaskState


def placement_of(row: AcceptedTask, settings: SchedulerSettings, *, now_ms: int) -> Placement:
    """Return where an open task belongs: in its queue, or, if it was running, held for its runner for one lease."""
    task, held_by = row.task, ""
    if row.state is TaskState.RUNNING:
        task = replace(task, not_before_ms=now_ms + round(settings.lease_seconds * 1000))
        held_by = row.runner or "?"
    return Placement(task, row.entitlement.with_default_limit(settings.device_in_flight), held_by)
