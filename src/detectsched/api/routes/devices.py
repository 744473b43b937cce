"""Devices: how they stand, what they may have, and whether they are paused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from detectsched.api.auth import Admin, Reader
from detectsched.api.bodies import read_json, read_optional_json
from detectsched.api.context import ApiContext, Context
from detectsched.api.control import actor_of, entitle_device, pause, pause_state, resume
from detectsched.api.decisions import ChangeDevice, PauseRequest
from detectsched.api.fields import Mac
from detectsched.api.openapi import body, optional_body, problems
from detectsched.api.states import DevicePage, DeviceQueue, DeviceState, PauseState, moment_of
from detectsched.db import control
from detectsched.db.models import Device, Pause, Tenant
from detectsched.errors import InvalidRequest
from detectsched.queueing.queue import QueueState, paused_subject
from detectsched.task import QueueId, normalise_mac

router = APIRouter(prefix="/api", tags=["devices"])

DeviceMac = Annotated[Mac, Path(description="A MAC address in any usual spelling.")]


class DeviceQuery(BaseModel):
    """Which page of devices."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    cursor: Mac | None = None
    """Where to go on: the `next_cursor` of the page before."""
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    """Most devices on the page."""


@router.get("/devices", responses=problems())
async def list_devices(context: Context, caller: Reader, query: Annotated[DeviceQuery, Query()]) -> DevicePage:
    """List devices by MAC address, each with its backlog, its limits and its place in every lane."""
    after = None if query.cursor is None else _position_of(query.cursor)
    found = await control.devices(context.ledger, caller.tenant, after=after, limit=query.limit + 1)
    page = found[: query.limit]
    items = await _states(context, caller.tenant, page)
    return DevicePage(items=items, next_cursor=page[-1].mac if len(found) > len(page) else None)


@router.get("/devices/{mac}", responses=problems(404))
async def get_device(mac: DeviceMac, context: Context, caller: Reader) -> DeviceState:
    """Get a device with its backlog, its limits and its place in every lane."""
    found = await control.device(context.ledger, caller.tenant, normalise_mac(mac))
    [state] = await _states(context, caller.tenant, [found])
    return state


@router.patch("/devices/{mac}", responses=problems(400, 415), openapi_extra=body(json="ChangeDevice"))
async def change_device(mac: DeviceMac, request: Request, context: Context, caller: Admin) -> DeviceState:
    """Change what a device may have, at once also for what waits; one that has not been seen yet is entered."""
    address = normalise_mac(mac)
    changes = (await read_json(request, ChangeDevice)).columns()
    changed = await control.change_device(context.ledger, caller.tenant, address, changes, by=actor_of(caller))
    await entitle_device(context, caller.tenant, address)
    [state] = await _states(context, caller.tenant, [changed])
    return state


@router.post("/devices/{mac}/pause", responses=problems(400, 404, 415), openapi_extra=optional_body("PauseRequest"))
async def pause_device(mac: DeviceMac, request: Request, context: Context, caller: Admin) -> PauseState:
    """Pause a device: what runs goes on, nothing more of it is started, and its tasks are accepted as before."""
    address = normalise_mac(mac)
    wanted = await read_optional_json(request, PauseRequest)
    await control.device(context.ledger, caller.tenant, address)
    return await pause(context, _paused_device(context, caller.tenant, address), caller, reason=wanted.reason)


@router.post("/devices/{mac}/resume", responses=problems(404, 409))
async def resume_device(mac: DeviceMac, context: Context, caller: Admin) -> PauseState:
    """Let a paused device go on."""
    address = normalise_mac(mac)

    async def exists() -> object:
        return await control.device(context.ledger, caller.tenant, address)

    return await resume(context, _paused_device(context, caller.tenant, address), caller, exists=exists)


def _paused_device(context: ApiContext, tenant: str, mac: str) -> str:
    # Paused in all lanes; any of its queues tells its name.
    return paused_subject(QueueId.of_device(tenant, context.settings.lanes[0], mac))


def _position_of(cursor: str) -> str:
    try:
        return normalise_mac(cursor)
    except InvalidRequest:
        raise InvalidRequest("this is no cursor: use the next_cursor of a page", field="cursor") from None


async def _states(context: ApiContext, tenant: str, found: Sequence[Device]) -> list[DeviceState]:
    """Put together what the ledger and the queues know of devices."""
    if not found:
        return []
    lanes, views = context.settings.lanes, context.queue.views
    owner = await control.tenant_of(context.ledger, tenant)
    names = [_paused_device(context, tenant, device.mac) for device in found]
    pauses = await control.paused_among(context.ledger, names)
    now_ms, queues = await views.queues(
        [QueueId.of_device(tenant, lane, device.mac) for device in found for lane in lanes]
    )
    backlogs = await views.backlogs([QueueId.of_device(tenant, lanes[0], device.mac) for device in found])
    return [
        _state(
            context,
            owner,
            device,
            backlog=backlogs[place],
            pause=pauses.get(names[place]),
            queues=queues[place * len(lanes) : (place + 1) * len(lanes)],
            now_ms=now_ms,
        )
        for place, device in enumerate(found)
    ]


def _state(
    context: ApiContext,
    owner: Tenant,
    device: Device,
    *,
    backlog: int,
    pause: Pause | None,
    queues: Sequence[QueueState],
    now_ms: int,
) -> DeviceState:
    lanes = context.settings.lanes
    return DeviceState(
        mac=device.mac,
        name=device.name,
        weight=device.weight,
        effective_weight=owner.device_weight if device.weight is None else device.weight,
        in_flight_limit=device.in_flight or context.settings.scheduler.device_in_flight,
        rate=device.rate,
        burst=device.burst,
        backlog=backlog,
        in_flight=sum(queue.inflight for queue in queues),
        pause=pause_state(pause),
        first_seen_at=device.first_seen_at,
        last_seen_at=device.last_seen_at,
        queues=[_queue(context, lane, queue, now_ms) for lane, queue in zip(lanes, queues, strict=True)],
    )


def _queue(context: ApiContext, lane: str, queue: QueueState, now_ms: int) -> DeviceQueue:
    scheduler = context.settings.scheduler
    score = queue.aging_score(now_ms, max_wait_seconds=scheduler.aging_max_wait_seconds, weight=scheduler.aging_weight)
    return DeviceQueue(
        lane=lane,
        waiting=queue.length,
        in_flight=queue.inflight,
        in_round=queue.scheduled_in == lane,
        virtual_key=queue.key,
        aging_score=round(score, 3),
        since=moment_of(queue.since_ms),
        backed_off_until=moment_of(queue.until_ms) if queue.until_ms > now_ms else None,
        failures=queue.failures,
        deferrals=queue.defers,
    )
