"""Runners: how they stand, and draining them."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Path, Request

from detectsched.api.auth import Operator, Reader
from detectsched.api.bodies import read_optional_json
from detectsched.api.context import ApiContext, Context
from detectsched.api.control import pause, pause_state, resume
from detectsched.api.decisions import PauseRequest, RunnerLabel
from detectsched.api.openapi import optional_body, problems
from detectsched.api.schemas import ListVersion
from detectsched.api.states import DrainState, LaneSlots, PauseState, RunnerPage, RunnerState
from detectsched.db import control
from detectsched.errors import NotFound
from detectsched.queueing.queue import WorkerRecord, paused_runner

router = APIRouter(prefix="/api/runners", tags=["runners"])

Label = Annotated[RunnerLabel, Path(description="The label of the runners, as the list shows it; not host and pid.")]

_PREFIX: Final = paused_runner("")


@router.get("", responses=problems())
async def list_runners(context: Context, caller: Reader) -> RunnerPage:
    """List all runners with their load and state, and the labels that are drained."""
    # A label may be drained while no runner of it is there.
    drained = {
        row.what.removeprefix(_PREFIX): row
        for row in await control.pauses(context.ledger, tenant=caller.tenant)
        if row.what.startswith(_PREFIX)
    }
    workers = await context.queue.registry.workers()
    return RunnerPage(
        items=[
            _state(worker, drained=worker.label in drained, tenant=caller.tenant)
            for worker in sorted(workers, key=lambda one: one.name)
        ],
        drained=[DrainState(label=label, **pause_state(row).model_dump()) for label, row in sorted(drained.items())],
    )


@router.post("/{label}/drain", responses=problems(400, 404, 415), openapi_extra=optional_body("PauseRequest"))
async def drain_runner(label: Label, request: Request, context: Context, caller: Operator) -> PauseState:
    """Drain the runners of a label: they finish what they have and take nothing new, also after a restart."""
    wanted = await read_optional_json(request, PauseRequest)
    await _known(context, label)
    return await pause(context, paused_runner(label), caller, reason=wanted.reason, of_platform=True)


@router.post("/{label}/resume", responses=problems(404, 409))
async def resume_runner(label: Label, context: Context, caller: Operator) -> PauseState:
    """Let drained runners work again."""
    return await resume(context, paused_runner(label), caller, exists=lambda: _known(context, label), of_platform=True)


async def _known(context: ApiContext, label: str) -> None:
    labels = {worker.label for worker in await context.queue.registry.workers()}
    if label not in labels:
        known = ", ".join(sorted(labels)) or "none now"
        raise NotFound(f"there is no runner of the label {label!r}; the labels are: {known}")


def _state(worker: WorkerRecord, *, drained: bool, tenant: str) -> RunnerState:
    pairs = (part.partition("=") for part in worker.slots.split(","))
    return RunnerState(
        name=worker.name,
        label=worker.label,
        state=worker.state,
        reason=worker.reason,
        drained=drained,
        lanes=[LaneSlots(lane=lane, slots=int(slots)) for lane, _, slots in pairs],
        active_tasks=worker.active_tasks,
        cpu_percent=worker.cpu_percent,
        memory_percent=worker.memory_percent,
        gpu_available=bool(worker.gpu_available),
        gpu_util=worker.gpu_util,
        gpu_memory_util=worker.gpu_memory_util,
        engine=worker.engine,
        version=worker.version,
        last_heartbeat=worker.last_heartbeat,
        word_lists=[ListVersion(id=list_id, version=version) for list_id, version in worker.lists_of(tenant)],
    )
