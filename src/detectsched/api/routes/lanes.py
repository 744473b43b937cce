"""Lanes, which all tenants share: how they stand, whether they are paused, how many runners they should have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Path, Request

from detectsched.api.auth import Operator, Reader
from detectsched.api.bodies import Lane, read_optional_json
from detectsched.api.context import ApiContext, Context
from detectsched.api.control import known_lane, pause, pause_state, resume
from detectsched.api.decisions import PauseRequest
from detectsched.api.openapi import optional_body, problems
from detectsched.api.schemas import LaneScaling
from detectsched.api.states import LanePage, LaneView, PauseState
from detectsched.db import control
from detectsched.db.backlog import backlog_of_lanes
from detectsched.db.models import Pause
from detectsched.queueing.queue import LaneState, Scaling, WorkerRecord, capacity_of, paused_lane, scaling_of
from detectsched.task import LaneBacklog

router = APIRouter(prefix="/api", tags=["lanes"])

NamedLane = Annotated[Lane, Path(description="The lane's name.")]


@router.get("/lanes", responses=problems())
async def list_lanes(context: Context, caller: Reader) -> LanePage:
    """List all lanes with their load, of all tenants together."""
    lanes = context.settings.lanes
    workers = await context.queue.registry.workers()
    backlogs = await backlog_of_lanes(context.ledger)
    pauses = await control.paused_among(context.ledger, [paused_lane(lane) for lane in lanes])
    views = []
    for lane in lanes:
        state, backlog = await context.queue.views.lane(lane), backlogs.get(lane, LaneBacklog())
        scaling = _scaling(context, state, backlog, workers)
        views.append(_view(context, state, backlog, scaling, workers, pauses.get(paused_lane(lane))))
    return LanePage(items=views)


@router.post("/lanes/{lane}/pause", responses=problems(400, 404, 415), openapi_extra=optional_body("PauseRequest"))
async def pause_lane(lane: NamedLane, request: Request, context: Context, caller: Operator) -> PauseState:
    """Pause a lane for all tenants: what runs goes on, nothing more is handed out, and tasks are accepted as before."""
    wanted = await read_optional_json(request, PauseRequest)
    what = paused_lane(known_lane(context, lane))
    return await pause(context, what, caller, reason=wanted.reason, of_platform=True)


@router.post("/lanes/{lane}/resume", responses=problems(404, 409))
async def resume_lane(lane: NamedLane, context: Context, caller: Operator) -> PauseState:
    """Let a paused lane go on."""

    async def exists() -> object:
        return known_lane(context, lane)

    return await resume(context, paused_lane(lane), caller, exists=exists, of_platform=True)


@router.get("/scaling/{lane}", responses=problems(404))
async def get_scaling(lane: NamedLane, context: Context, caller: Reader) -> LaneScaling:
    """Get how many runners a lane should have, for an autoscaler (KEDA: metrics-api, `valueLocation: desired`)."""
    state = await context.queue.views.lane(known_lane(context, lane))
    backlog = (await backlog_of_lanes(context.ledger)).get(lane, LaneBacklog())
    return LaneScaling.model_validate(_scaling(context, state, backlog, await context.queue.registry.workers()))


def _scaling(context: ApiContext, state: LaneState, backlog: LaneBacklog, workers: Sequence[WorkerRecord]) -> Scaling:
    return scaling_of(
        state.lane,
        backlog,
        seconds_per_cost=state.seconds_per_cost,
        workers=workers,
        runner=context.settings.runner,
        target_seconds=context.settings.api.scaling_target_seconds,
        paused=state.paused_ms > 0,
    )


def _view(
    context: ApiContext,
    state: LaneState,
    backlog: LaneBacklog,
    scaling: Scaling,
    workers: Sequence[WorkerRecord],
    paused: Pause | None,
) -> LaneView:
    capacity = capacity_of(state.lane, workers, context.settings.scheduler)
    return LaneView(
        lane=state.lane,
        depth=backlog.waiting,
        running=backlog.running,
        tenants=state.tenants,
        queues=state.queues,
        outstanding=state.outstanding,
        capacity=capacity.slots,
        runners=sum(worker.slots_of(state.lane) > 0 for worker in workers),
        healthy_runners=len(capacity.consumers),
        completed=state.completed,
        seconds_per_cost=state.seconds_per_cost,
        backlog_seconds=scaling.backlog_seconds,
        oldest_wait_seconds=scaling.oldest_wait_seconds,
        admission="any" if capacity.cpu_admitted else "gpu",
        pause=pause_state(paused),
    )
