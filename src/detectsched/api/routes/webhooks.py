"""Webhooks: who is told of commands, what was told, and the secrets that prove it."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from detectsched.api.auth import Admin
from detectsched.api.bodies import read_json, read_optional_json
from detectsched.api.context import ApiContext, Context
from detectsched.api.control import actor_of
from detectsched.api.cursors import cursor_of, position_of
from detectsched.api.fields import Cursor, WebhookId
from detectsched.api.openapi import body, optional_body, problems
from detectsched.api.outbox_bodies import ChangeWebhook, CreateWebhook, RedriveDeliveries, unique_events
from detectsched.api.outbox_schemas import (
    CreatedWebhook,
    DeliveryPage,
    NewSecret,
    RedrivenDeliveries,
    WebhookPage,
    WebhookView,
    delivery_view,
)
from detectsched.db import delivery_log, webhooks
from detectsched.db.api_keys import Principal
from detectsched.db.deliveries import DeliveryState
from detectsched.db.delivery_log import DeliveryFilter
from detectsched.webhooks.signing import new_secret
from detectsched.webhooks.targets import checked_url

router = APIRouter(prefix="/api", tags=["webhooks"])


class DeliveryQuery(BaseModel):
    """Which messages to list; a misspelt filter is refused, since it would list everything."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    state: DeliveryState | None = None
    """Only messages in this state."""
    webhook_id: UUID | None = None
    """Only messages to this webhook."""
    task_id: UUID | None = None
    """Only messages about this task."""
    event: Annotated[str, Field(pattern=r"^[a-z._]{1,64}$")] | None = None
    """Only messages of this event, as `command.notify` or `task.failed`."""
    cursor: Cursor | None = None
    """Where to go on: the `next_cursor` of the page before."""
    limit: Annotated[int, Field(ge=1, le=500)] = 50
    """Most messages on the page."""


@router.post("/webhooks", status_code=201, responses=problems(400, 409, 415), openapi_extra=body(json="CreateWebhook"))
async def create_webhook(request: Request, context: Context, caller: Admin) -> CreatedWebhook:
    """Make a webhook; its secret is shown in this answer only."""
    wanted = await read_json(request, CreateWebhook)
    secret = new_secret()
    row = await webhooks.create_webhook(
        context.ledger,
        caller.tenant,
        url=checked_url(wanted.url, context.guard, field="url"),
        events=unique_events(wanted.events),
        secret=secret,
        most=context.settings.webhooks.max_per_tenant,
        by=actor_of(caller),
    )
    return CreatedWebhook(**WebhookView.model_validate(row).model_dump(), secret=secret)


@router.get("/webhooks", responses=problems())
async def list_webhooks(context: Context, caller: Admin) -> WebhookPage:
    """List the webhooks, the oldest first; secrets are not shown."""
    rows = await webhooks.webhooks(context.ledger, caller.tenant)
    return WebhookPage(items=[WebhookView.model_validate(row) for row in rows])


@router.get("/webhooks/{webhook_id}", responses=problems(404))
async def get_webhook(webhook_id: WebhookId, context: Context, caller: Admin) -> WebhookView:
    """Get a webhook."""
    return WebhookView.model_validate(await webhooks.webhook(context.ledger, caller.tenant, webhook_id))


@router.patch("/webhooks/{webhook_id}", responses=problems(400, 404, 415), openapi_extra=body(json="ChangeWebhook"))
async def change_webhook(webhook_id: WebhookId, request: Request, context: Context, caller: Admin) -> WebhookView:
    """Change a webhook; one that was disabled is enabled again by `{"enabled": true}`."""
    changes = (await read_json(request, ChangeWebhook)).columns()
    if "url" in changes:
        changes["url"] = checked_url(changes["url"], context.guard, field="url")
    row = await webhooks.change_webhook(context.ledger, caller.tenant, webhook_id, changes, by=actor_of(caller))
    return WebhookView.model_validate(row)


@router.delete("/webhooks/{webhook_id}", status_code=204, responses=problems(404))
async def delete_webhook(webhook_id: WebhookId, context: Context, caller: Admin) -> Response:
    """Delete a webhook with everything that was, or was to be, sent to it."""
    await webhooks.delete_webhook(context.ledger, caller.tenant, webhook_id, by=actor_of(caller))
    return Response(status_code=204)


@router.post("/webhooks/{webhook_id}/rotate-secret", responses=problems(404))
async def rotate_webhook_secret(webhook_id: WebhookId, context: Context, caller: Admin) -> NewSecret:
    """Replace a webhook's secret; the one before signs as well for a while, so that the receiver can change over."""
    return await _rotate(context, caller, webhook_id)


@router.post("/callbacks/rotate-secret", responses=problems())
async def rotate_callback_secret(context: Context, caller: Admin) -> NewSecret:
    """Replace the secret that signs the callbacks of the tenant's tasks; the first call makes it."""
    return await _rotate(context, caller, None)


@router.get("/webhook-deliveries", responses=problems())
async def list_webhook_deliveries(
    context: Context, caller: Admin, query: Annotated[DeliveryQuery, Query()]
) -> DeliveryPage:
    """List messages to webhooks and callbacks, newest first, with how their last attempt went."""
    wanted = DeliveryFilter(query.state, query.webhook_id, query.task_id, query.event)
    before = None if query.cursor is None else position_of(query.cursor)
    found = await delivery_log.list_deliveries(
        context.ledger, caller.tenant, wanted, before=before, limit=query.limit + 1
    )
    page = found[: query.limit]
    more = len(found) > len(page)
    return DeliveryPage(
        items=[delivery_view(row) for row in page],
        next_cursor=cursor_of(page[-1].created_at, page[-1].id) if more else None,
    )


@router.post(
    "/webhook-deliveries/redrive", responses=problems(400, 415), openapi_extra=optional_body("RedriveDeliveries")
)
async def redrive_webhook_deliveries(request: Request, context: Context, caller: Admin) -> RedrivenDeliveries:
    """Send messages that were given up once more, under the ids they had."""
    wanted = await read_optional_json(request, RedriveDeliveries)
    count = await delivery_log.redrive_deliveries(
        context.ledger,
        caller.tenant,
        DeliveryFilter(webhook_id=wanted.webhook_id, task_id=wanted.task_id, event=wanted.event),
        limit=wanted.limit,
        by=actor_of(caller),
    )
    return RedrivenDeliveries(redriven=count)


async def _rotate(context: ApiContext, caller: Principal, webhook_id: UUID | None) -> NewSecret:
    secret = new_secret()
    until = await webhooks.rotate_secret(
        context.ledger,
        caller.tenant,
        webhook_id,
        secret,
        overlap_seconds=context.settings.webhooks.secret_overlap_seconds,
        by=actor_of(caller),
    )
    return NewSecret(secret=secret, previous_until=until)
