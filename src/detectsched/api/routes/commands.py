"""Commands: which follow hits, which were given, and devices taking theirs."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from detectsched.api.auth import Admin, Reader, Submitter
from detectsched.api.bodies import ListId, read_json
from detectsched.api.context import ApiContext, Context
from detectsched.api.control import actor_of
from detectsched.api.cursors import cursor_of, position_of
from detectsched.api.fields import CommandId, Cursor, Mac, ObjectName
from detectsched.api.openapi import body, problems
from detectsched.api.outbox_bodies import PutCommandPolicy
from detectsched.api.outbox_schemas import (
    CommandDetail,
    CommandPage,
    CommandPolicyPage,
    CommandPolicyView,
    CommandView,
    PendingCommands,
    command_detail,
    command_view,
    delivery_view,
)
from detectsched.api.paths import OBJECT
from detectsched.command import CommandKind, CommandState
from detectsched.db import command_policies, commands, delivery_log
from detectsched.db.commands import Addressee, CommandFilter
from detectsched.errors import NotFound, SystemOverloaded
from detectsched.task import normalise_mac, normalise_object

router = APIRouter(prefix="/api", tags=["commands"])

PolicyId = Annotated[ListId, Path(description="The policy's id: lower-case letters, digits, - and _.")]
DeviceMac = Annotated[Mac, Path(description="A MAC address in any usual spelling.")]
NamedObject = Annotated[ObjectName, Path(description="The object's name, in any spelling.")]


class CommandQuery(BaseModel):
    """Which commands to list; a misspelt filter is refused, since it would list everything."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    state: CommandState | None = None
    """Only commands in this state."""
    kind: CommandKind | None = None
    """Only commands of this kind."""
    mac: Mac | None = None
    """Only commands for this device, in any usual spelling of its MAC address."""
    object: ObjectName | None = None
    """Only commands for this object."""
    task_id: UUID | None = None
    """Only commands that follow from this task."""
    cursor: Cursor | None = None
    """Where to go on: the `next_cursor` of the page before."""
    limit: Annotated[int, Field(ge=1, le=500)] = 50
    """Most commands on the page."""


class PendingQuery(BaseModel):
    """How many commands to take, and how long to wait for the first."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    wait: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Seconds to wait while there is none; no longer than the server's limit."""
    limit: Annotated[int, Field(ge=1, le=100)] = 20
    """Most commands in the answer."""


Pending = Annotated[PendingQuery, Query()]


@router.get("/command-policies", responses=problems())
async def list_command_policies(context: Context, caller: Reader) -> CommandPolicyPage:
    """List the policies by id; a tenant without any commands nothing."""
    rows = await command_policies.policies(context.ledger, caller.tenant)
    return CommandPolicyPage(items=[CommandPolicyView.model_validate(row) for row in rows])


@router.get("/command-policies/{policy_id}", responses=problems(404))
async def get_command_policy(policy_id: PolicyId, context: Context, caller: Reader) -> CommandPolicyView:
    """Get a policy."""
    return CommandPolicyView.model_validate(await command_policies.policy(context.ledger, caller.tenant, policy_id))


@router.put(
    "/command-policies/{policy_id}", responses=problems(400, 409, 415), openapi_extra=body(json="PutCommandPolicy")
)
async def put_command_policy(
    policy_id: PolicyId, request: Request, context: Context, caller: Admin
) -> CommandPolicyView:
    """Make a policy, or replace it: tasks that end from now on are followed by its commands."""
    wanted = await read_json(request, PutCommandPolicy)
    row = await command_policies.put_policy(
        context.ledger, caller.tenant, wanted.policy(policy_id), enabled=wanted.enabled, by=actor_of(caller)
    )
    return CommandPolicyView.model_validate(row)


@router.delete("/command-policies/{policy_id}", status_code=204, responses=problems(404))
async def delete_command_policy(policy_id: PolicyId, context: Context, caller: Admin) -> Response:
    """Delete a policy; what it has commanded stays."""
    await command_policies.delete_policy(context.ledger, caller.tenant, policy_id, by=actor_of(caller))
    return Response(status_code=204)


@router.get("/commands", responses=problems())
async def list_commands(context: Context, caller: Reader, query: Annotated[CommandQuery, Query()]) -> CommandPage:
    """List commands, newest first."""
    wanted = CommandFilter(
        state=query.state,
        kind=query.kind,
        mac=None if query.mac is None else normalise_mac(query.mac),
        object=None if query.object is None else normalise_object(query.object),
        task_id=query.task_id,
    )
    before = None if query.cursor is None else position_of(query.cursor)
    found = await commands.list_commands(context.ledger, caller.tenant, wanted, before=before, limit=query.limit + 1)
    page = found[: query.limit]
    more = len(found) > len(page)
    return CommandPage(
        items=[command_view(row) for row in page],
        next_cursor=cursor_of(page[-1].created_at, page[-1].id) if more else None,
    )


@router.get("/commands/{command_id}", responses=problems(404))
async def get_command(command_id: CommandId, context: Context, caller: Reader) -> CommandDetail:
    """Get a command with what webhooks were told of it."""
    row = await commands.get_command(context.ledger, caller.tenant, command_id)
    if row is None:
        raise NotFound("there is no such command")
    told = await delivery_log.deliveries_of(context.ledger, caller.tenant, command_id)
    return command_detail(row, [delivery_view(delivery) for delivery in told])


@router.get("/devices/{mac}/commands", responses=problems())
async def take_device_commands(mac: DeviceMac, context: Context, caller: Submitter, query: Pending) -> PendingCommands:
    """Get what a device is to do; with `wait` as soon as there is something.

    A command is handed out until it is acknowledged: whoever carries it out remembers its id.
    """
    return await _take(context, Addressee(caller.tenant, normalise_mac(mac)), query)


@router.post("/devices/{mac}/commands/{command_id}/ack", responses=problems(404))
async def acknowledge_device_command(
    mac: DeviceMac, command_id: CommandId, context: Context, caller: Submitter
) -> CommandView:
    """Say that a device has carried a command out; saying it again changes nothing."""
    return await _acknowledge(context, Addressee(caller.tenant, normalise_mac(mac)), command_id)


@router.get(f"/objects/{OBJECT}/commands", responses=problems())
async def take_object_commands(
    name: NamedObject, context: Context, caller: Submitter, query: Pending
) -> PendingCommands:
    """Get what is to be done about an object; with `wait` as soon as there is something."""
    return await _take(context, Addressee(caller.tenant, normalise_object(name), is_object=True), query)


@router.post(f"/objects/{OBJECT}/commands/{{command_id}}/ack", responses=problems(404))
async def acknowledge_object_command(
    name: NamedObject, command_id: CommandId, context: Context, caller: Submitter
) -> CommandView:
    """Say that a command about an object was carried out; saying it again changes nothing."""
    return await _acknowledge(context, Addressee(caller.tenant, normalise_object(name), is_object=True), command_id)


async def _take(context: ApiContext, addressee: Addressee, query: PendingQuery) -> PendingCommands:
    async def is_commanded() -> bool:
        return bool(await commands.pending_commands(context.ledger, addressee, limit=1))

    seconds = min(query.wait, context.settings.api.max_wait_seconds)
    if seconds > 0:
        if len(context.command_waiters) >= context.settings.api.max_command_waiters:
            raise SystemOverloaded(
                "too many devices wait for commands here: ask again later, or without wait",
                retry_after=context.settings.api.retry_after_seconds,
            )
        await context.command_waiters.wait(addressee, is_commanded, seconds=seconds)
    found = await commands.pending_commands(context.ledger, addressee, limit=query.limit + 1)
    return PendingCommands(items=[command_view(row) for row in found[: query.limit]], more=len(found) > query.limit)


async def _acknowledge(context: ApiContext, addressee: Addressee, command_id: UUID) -> CommandView:
    row = await commands.acknowledge(context.ledger, addressee, command_id)
    if row is None:
        raise NotFound("it has no such command")
    return command_view(row)
