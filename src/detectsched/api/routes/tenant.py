"""The caller's own tenant: what it may have, and whether it is paused."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request

from detectsched.api.auth import Admin, Reader
from detectsched.api.bodies import read_json, read_optional_json
from detectsched.api.context import ApiContext, Context
from detectsched.api.control import actor_of, entitle_tenant, pause, pause_state, resume
from detectsched.api.decisions import ChangeTenant, PauseRequest
from detectsched.api.openapi import body, optional_body, problems
from detectsched.api.states import PauseState, TenantState
from detectsched.db import control
from detectsched.db.api_keys import Scope
from detectsched.db.models import Tenant
from detectsched.errors import Forbidden
from detectsched.queueing.queue import paused_tenant

router = APIRouter(prefix="/api/tenant", tags=["tenant"])

_OF_PLATFORM: Final = ("weight", "rate", "burst")
"""What concerns the other tenants."""


@router.get("", responses=problems())
async def get_tenant(context: Context, caller: Reader) -> TenantState:
    """Get the caller's tenant."""
    return await _state(context, await control.tenant_of(context.ledger, caller.tenant))


@router.patch("", responses=problems(400, 409, 415), openapi_extra=body(json="ChangeTenant"))
async def change_tenant(request: Request, context: Context, caller: Admin) -> TenantState:
    """Change what the caller's tenant may have, at once also for what waits.

    The weight of devices and encryption at rest are the tenant's own affair; its own weight and rate need the scope
    `operate` as well.
    """
    changes = (await read_json(request, ChangeTenant)).columns()
    foreign = [name for name in _OF_PLATFORM if name in changes]
    if foreign and not caller.may(Scope.OPERATE):
        raise Forbidden(
            f"{' and '.join(foreign)} of a tenant concern the other tenants as well: this API key lacks the scope "
            "'operate'; device_weight needs no more than 'admin'"
        )
    changed = await control.change_tenant(context.ledger, caller.tenant, changes, by=actor_of(caller))
    await entitle_tenant(context, caller.tenant)
    return await _state(context, changed)


@router.post("/pause", responses=problems(400, 415), openapi_extra=optional_body("PauseRequest"))
async def pause_tenant(request: Request, context: Context, caller: Admin) -> PauseState:
    """Pause the caller's tenant: what runs goes on, nothing more is started, and tasks are accepted as before."""
    wanted = await read_optional_json(request, PauseRequest)
    return await pause(context, paused_tenant(caller.tenant), caller, reason=wanted.reason)


@router.post("/resume", responses=problems(409))
async def resume_tenant(context: Context, caller: Admin) -> PauseState:
    """Let the caller's tenant go on."""

    async def exists() -> object:
        return await control.tenant_of(context.ledger, caller.tenant)

    return await resume(context, paused_tenant(caller.tenant), caller, exists=exists)


async def _state(context: ApiContext, tenant: Tenant) -> TenantState:
    name = paused_tenant(tenant.id)
    pauses = await control.paused_among(context.ledger, [name])
    return TenantState(
        id=tenant.id,
        name=tenant.name,
        weight=tenant.weight,
        device_weight=tenant.device_weight,
        rate=tenant.rate,
        burst=tenant.burst,
        encrypt_at_rest=tenant.encrypt_at_rest,
        backlog=await context.queue.views.backlog_of_tenant(tenant.id),
        pause=pause_state(pauses.get(name)),
    )
