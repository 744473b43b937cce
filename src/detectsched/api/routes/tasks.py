"""Reading, finding and cancelling tasks."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from detectsched import failpoints
from detectsched.api.auth import Reader, Submitter
from detectsched.api.bodies import Lane
from detectsched.api.context import ApiContext, Context
from detectsched.api.fields import Mac, ObjectName, TaskId
from detectsched.api.openapi import problems
from detectsched.api.schemas import Cancellation, TaskDetail, TaskPage
from detectsched.api.views import detail, summary
from detectsched.db import reads, transitions
from detectsched.db.reads import TaskFilter
from detectsched.errors import Conflict, InvalidRequest, NotFound, StoreUnavailable
from detectsched.task import TERMINAL_STATES, TaskState, normalise_mac, normalise_object
from detectsched.telemetry import get_logger

log = get_logger(__name__)

router = APIRouter(prefix="/api/tasks", tags=["tasks"])

_NO_TASK: Final = "there is no such task"
_STOPPING: Final[dict[int | str, dict[str, Any]]] = {
    202: {"model": Cancellation, "description": "It runs, and its runner is being stopped."}
}


class TaskQuery(BaseModel):
    """Which tasks to list; a misspelt filter is refused, since it would list everything."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    state: TaskState | None = None
    """Only tasks in this state."""
    lane: Lane | None = None
    """Only tasks of this lane."""
    mac: Mac | None = None
    """Only tasks of this device, in any usual spelling of its MAC address."""
    object: ObjectName | None = None
    """Only tasks of this object."""
    has_hits: bool | None = None
    """Only tasks in which words were found, or only the others."""
    cursor: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{22}$")] | None = None
    """Where to go on: the `next_cursor` of the page before."""
    limit: Annotated[int, Field(ge=1, le=500)] = 50
    """Most tasks on the page."""


@router.get("", responses=problems())
async def list_tasks(context: Context, caller: Reader, query: Annotated[TaskQuery, Query()]) -> TaskPage:
    """List tasks, newest first."""
    if query.lane is not None and query.lane not in context.settings.lanes:
        known = ", ".join(context.settings.lanes)
        raise InvalidRequest(f"there is no lane {query.lane!r}; the lanes are: {known}", field="lane")
    wanted = TaskFilter(
        state=query.state,
        lane=query.lane,
        mac=None if query.mac is None else normalise_mac(query.mac),
        object=None if query.object is None else normalise_object(query.object),
        has_hits=query.has_hits,
        before=None if query.cursor is None else _position_of(query.cursor),
    )
    # One more than asked for tells whether there is another page.
    found = await reads.list_tasks(context.ledger, caller.tenant, wanted, limit=query.limit + 1)
    page = found[: query.limit]
    more = len(found) > len(page)
    return TaskPage(
        items=[summary(task, hits) for task, hits in page],
        next_cursor=_cursor_of(page[-1][0].id) if more else None,
    )


@router.get("/{task_id:uuid}", responses=problems(404, 405))
async def get_task(
    task_id: TaskId,
    context: Context,
    caller: Reader,
    wait: Annotated[
        float,
        Query(
            ge=0,
            allow_inf_nan=False,
            description="Seconds to wait for the task's end before answering; no longer than the server's limit.",
        ),
    ] = 0.0,
) -> TaskDetail:
    """Get a task with everything that is known of it; with `wait` as soon as it has ended."""

    async def has_ended() -> bool:
        state = await reads.task_state(context.ledger, caller.tenant, task_id)
        return state is None or state in TERMINAL_STATES

    seconds = min(wait, context.settings.api.max_wait_seconds)
    if seconds > 0:
        await context.waiters.wait(task_id, has_ended, seconds=seconds)
    view = await reads.get_task(context.ledger, caller.tenant, task_id)
    if view is None:
        raise NotFound(_NO_TASK)
    return detail(view)


@router.delete("/{task_id:uuid}", responses=_STOPPING | problems(404, 405, 409))
async def cancel_task(task_id: TaskId, response: Response, context: Context, caller: Submitter) -> Cancellation:
    """Cancel a task: one that waits at once (200), one that runs as soon as its runner has stopped it (202)."""
    state = await transitions.cancel(context.ledger, caller.tenant, task_id)
    if state is None:
        ended = await reads.task_state(context.ledger, caller.tenant, task_id)
        if ended is None:
            raise NotFound(_NO_TASK)
        raise Conflict(f"the task has ended already: it is {ended.value}")
    failpoints.hit("cancel.after_commit")
    await _withdraw(context, task_id, state)
    if state is TaskState.RUNNING:
        response.status_code = 202
    return Cancellation(task_id=task_id, state=state, cancel_requested=True)


async def _withdraw(context: ApiContext, task_id: UUID, state: TaskState) -> None:
    """Take the task out of the queues, or tell its runner."""
    try:
        await context.queue.scripts.withdraw([task_id])
    except StoreUnavailable as error:
        # A runner that was not told goes on: the caller must ask again. A task that only waited is cancelled whatever
        # Redis still holds of it, since no runner can start it any more.
        if state is TaskState.RUNNING:
            raise
        log.warning("a cancelled task stays in the queues until it is served", task=str(task_id), error=error.detail)


def _cursor_of(task_id: UUID) -> str:
    return base64.urlsafe_b64encode(task_id.bytes).rstrip(b"=").decode()


def _position_of(cursor: str) -> UUID:
    try:
        return UUID(bytes=base64.b64decode(f"{cursor}==", altchars=b"-_", validate=True))
    except (binascii.Error, ValueError):
        raise InvalidRequest("this is no cursor: use the next_cursor of a page", field="cursor") from None
