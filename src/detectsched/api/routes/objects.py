"""Objects: how they stand, which word lists are theirs, and whether they are paused."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request

from detectsched.api.auth import Admin, Reader
from detectsched.api.bodies import read_json, read_optional_json
from detectsched.api.context import ApiContext, Context
from detectsched.api.control import actor_of, pause, pause_state, resume
from detectsched.api.decisions import ChangeObject, PauseRequest
from detectsched.api.fields import ObjectName
from detectsched.api.openapi import body, optional_body, problems
from detectsched.api.paths import OBJECT
from detectsched.api.states import ObjectState, PauseState, moment_of
from detectsched.db import control, objects
from detectsched.db.word_lists import missing_lists
from detectsched.errors import InvalidRequest, NotFound
from detectsched.queueing.queue import paused_subject
from detectsched.task import QueueId, normalise_object

router = APIRouter(prefix="/api/objects", tags=["objects"])

NamedObject = Annotated[ObjectName, Path(description="The object's name, in any spelling.")]


@router.get(f"/{OBJECT}", responses=problems(404))
async def get_object(name: NamedObject, context: Context, caller: Reader) -> ObjectState:
    """Get an object with its backlog and its word lists."""
    known = normalise_object(name)
    if not await objects.is_known(context.ledger, caller.tenant, known):
        raise NotFound(f"there is no object {known!r}: it has no tasks, and nothing is set for it")
    return await _state(context, caller.tenant, known)


@router.patch(f"/{OBJECT}", responses=problems(400, 415), openapi_extra=body(json="ChangeObject"))
async def change_object(name: NamedObject, request: Request, context: Context, caller: Admin) -> ObjectState:
    """Choose the word lists that judge what is accepted of an object from now on; it need not have tasks yet."""
    known = normalise_object(name)
    changes = (await read_json(request, ChangeObject)).columns()
    lists = changes.get("word_lists")
    missing = await missing_lists(context.ledger, caller.tenant, sorted(set(lists))) if lists else []
    if missing:
        raise InvalidRequest(f"there is no word list {missing[0]!r}", field="word_lists")
    if "word_lists" in changes:
        await objects.set_word_lists(context.ledger, caller.tenant, known, lists, by=actor_of(caller))
    return await _state(context, caller.tenant, known)


@router.post(f"/{OBJECT}/pause", responses=problems(400, 404, 415), openapi_extra=optional_body("PauseRequest"))
async def pause_object(name: NamedObject, request: Request, context: Context, caller: Admin) -> PauseState:
    """Pause an object: what runs goes on, nothing more of it is started, and its tasks are accepted as before."""
    known = normalise_object(name)
    wanted = await read_optional_json(request, PauseRequest)
    await _with_tasks(context, caller.tenant, known)
    return await pause(context, _paused(caller.tenant, known), caller, reason=wanted.reason)


@router.post(f"/{OBJECT}/resume", responses=problems(404, 409))
async def resume_object(name: NamedObject, context: Context, caller: Admin) -> PauseState:
    """Let a paused object go on."""
    known = normalise_object(name)
    what = _paused(caller.tenant, known)
    return await resume(context, what, caller, exists=lambda: _with_tasks(context, caller.tenant, known))


async def _with_tasks(context: ApiContext, tenant: str, name: str) -> None:
    if not await control.has_object(context.ledger, tenant, name):
        raise NotFound(f"there is no object {name!r}: it has no tasks")


def _paused(tenant: str, name: str) -> str:
    return paused_subject(QueueId.of_object(tenant, name))


async def _state(context: ApiContext, tenant: str, name: str) -> ObjectState:
    what, queue_id = _paused(tenant, name), QueueId.of_object(tenant, name)
    pauses = await control.paused_among(context.ledger, [what])
    now_ms, [queue] = await context.queue.views.queues([queue_id])
    [backlog] = await context.queue.views.backlogs([queue_id])
    return ObjectState(
        object=name,
        word_lists=await objects.word_lists(context.ledger, tenant, name),
        backlog=backlog,
        in_flight=queue.inflight,
        lane=queue.scheduled_in or None,
        pause=pause_state(pauses.get(what)),
        backed_off_until=moment_of(queue.until_ms) if queue.until_ms > now_ms else None,
        failures=queue.failures,
    )
