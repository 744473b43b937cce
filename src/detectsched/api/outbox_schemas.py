"""Commands, policies, webhooks and what was told to them, as callers get them."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from detectsched.api.schemas import ResponseModel
from detectsched.command import CommandKind, CommandState
from detectsched.db.deliveries import DeliveryState
from detectsched.db.models import Command, WebhookDelivery


class CommandPolicyView(ResponseModel):
    """Which command follows which hits."""

    id: str
    kind: CommandKind
    min_level: int
    max_level: int | None
    categories: list[str]
    message: str
    payload: dict[str, Any]
    enabled: bool
    created_at: datetime
    updated_at: datetime


class CommandPolicyPage(ResponseModel):
    """All policies of the tenant."""

    items: list[CommandPolicyView]


class CommandView(ResponseModel):
    """A command; its `id` never changes, however often it is handed out."""

    id: UUID
    kind: CommandKind
    state: CommandState
    policy: str
    level: int
    """That of the gravest hit."""
    message: str
    payload: dict[str, Any]
    hit_count: int
    categories: list[str]
    """Of the hits."""
    mac: str | None
    object: str | None
    task_id: UUID | None
    """Null when the task was purged."""
    created_at: datetime
    acknowledged_at: datetime | None


class CommandPage(ResponseModel):
    """Commands, newest first."""

    items: list[CommandView]
    next_cursor: str | None
    """Give it as `cursor` to get the next page; null on the last."""


class PendingCommands(ResponseModel):
    """What a device or object is to do, oldest first."""

    items: list[CommandView]
    more: bool
    """Whether there are more: acknowledge these, then ask again."""


class DeliveryView(ResponseModel):
    """One message to one address."""

    id: UUID
    message_id: UUID
    """The `webhook-id` it is sent under: the command's id, or, for a callback, the task's."""
    event: str
    state: DeliveryState
    webhook_id: UUID | None
    """Null for a callback."""
    url: str | None
    """Of a callback."""
    task_id: UUID | None
    attempts: int
    created_at: datetime
    next_at: datetime | None
    """When it is sent, or sent again; null when it is over."""
    done_at: datetime | None
    last_status: int | None
    """What the address answered last; null if it did not."""
    last_error: str | None
    """Why it was not taken; a stable word."""


class DeliveryPage(ResponseModel):
    """Messages, newest first."""

    items: list[DeliveryView]
    next_cursor: str | None
    """Give it as `cursor` to get the next page; null on the last."""


class CommandDetail(CommandView):
    """A command with what webhooks were told of it."""

    deliveries: list[DeliveryView]


class WebhookView(ResponseModel):
    """An address that is told of commands."""

    id: UUID
    url: str
    events: list[str]
    enabled: bool
    disabled_reason: str | None
    """`gone` (it answered 410) or `by_tenant`."""
    created_at: datetime


class WebhookPage(ResponseModel):
    """All webhooks of the tenant, oldest first."""

    items: list[WebhookView]


class CreatedWebhook(WebhookView):
    """A new webhook with its secret, which is shown this once."""

    secret: str
    """For the receiver, which verifies signatures with it (Standard Webhooks)."""


class NewSecret(ResponseModel):
    """A new secret, which is shown this once."""

    secret: str
    previous_until: datetime | None
    """The one before signs as well until then; null if there was none."""


class RedrivenDeliveries(ResponseModel):
    """How many messages are sent again."""

    redriven: int


def command_view(row: Command) -> CommandView:
    """Show a command."""
    return CommandView(**_facts(row))


def command_detail(row: Command, deliveries: list[DeliveryView]) -> CommandDetail:
    """Show a command with its deliveries."""
    return CommandDetail(**_facts(row), deliveries=deliveries)


def delivery_view(row: WebhookDelivery) -> DeliveryView:
    """Show a message."""
    shown = DeliveryView.model_validate(row)
    return shown if shown.state is DeliveryState.PENDING else shown.model_copy(update={"next_at": None})


def _facts(row: Command) -> dict[str, Any]:
    return {
        "id": row.id,
        "kind": row.kind,
        "state": row.state,
        "policy": row.policy,
        "level": row.level,
        "message": row.body.get("message", ""),
        "payload": row.body.get("payload", {}),
        "hit_count": row.body.get("hit_count", 0),
        "categories": row.body.get("categories", []),
        "mac": row.mac,
        "object": row.object,
        "task_id": row.task_id,
        "created_at": row.created_at,
        "acknowledged_at": row.done_at,
    }
