"""The outbox of webhooks as tenants look at it, and driving again what was given up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import tuple_
from sqlmodel import col, select

from detectsched.db.audit import Actor, record
from detectsched.db.connection import Ledger
from detectsched.db.deliveries import DeliveryState
from detectsched.db.models import WebhookDelivery


@dataclass(frozen=True, slots=True)
class DeliveryFilter:
    """Which messages; None means any."""

    state: DeliveryState | None = None
    webhook_id: UUID | None = None
    task_id: UUID | None = None
    event: str | None = None


# The oldest first; they count their attempts and their age anew, and keep their ids.
_REDRIVE: Final = """
UPDATE webhook_delivery SET state = 'pending', attempts = 0, queued_at = now(), next_at = now(), done_at = NULL
WHERE id IN (SELECT id FROM webhook_delivery
             WHERE tenant = $1 AND state = 'dead' AND ($2::uuid IS NULL OR webhook_id = $2)
               AND ($3::uuid IS NULL OR task_id = $3) AND ($4::text IS NULL OR event = $4)
             ORDER BY created_at, id LIMIT $5 FOR UPDATE)
RETURNING id
"""


async def list_deliveries(
    ledger: Ledger, tenant: str, wanted: DeliveryFilter, *, before: tuple[datetime, UUID] | None, limit: int
) -> Sequence[WebhookDelivery]:
    """Return up to ``limit`` messages, the newest first, beginning after the position (created_at, id) given."""
    query = select(WebhookDelivery).where(WebhookDelivery.tenant == tenant)
    for column, value in (
        (WebhookDelivery.state, wanted.state),
        (WebhookDelivery.webhook_id, wanted.webhook_id),
        (WebhookDelivery.task_id, wanted.task_id),
        (WebhookDelivery.event, wanted.event),
    ):
        if value is not None:
            query = query.where(col(column) == value)
    if before is not None:
        query = query.where(tuple_(col(WebhookDelivery.created_at), col(WebhookDelivery.id)) < before)
    query = query.order_by(col(WebhookDelivery.created_at).desc(), col(WebhookDelivery.id).desc()).limit(limit)
    async with ledger.reading() as session:
        return (await session.exec(query)).all()


async def deliveries_of(ledger: Ledger, tenant: str, message_id: UUID) -> Sequence[WebhookDelivery]:
    """Return what is, or was, told of one command, to each webhook."""
    query = (
        select(WebhookDelivery)
        .where(WebhookDelivery.tenant == tenant, WebhookDelivery.message_id == message_id)
        .order_by(WebhookDelivery.channel)
    )
    async with ledger.reading() as session:
        return (await session.exec(query)).all()


async def redrive_deliveries(ledger: Ledger, tenant: str, wanted: DeliveryFilter, *, limit: int, by: Actor) -> int:
    """Send dead messages again, at most ``limit`` of those that match; return how many.

    The filter's state is not looked at: only dead ones are driven again.
    """
    async with ledger.transaction() as connection:
        rows = await connection.fetch(_REDRIVE, tenant, wanted.webhook_id, wanted.task_id, wanted.event, limit)
        if rows:
            named = {"webhook_id": wanted.webhook_id, "task_id": wanted.task_id, "event": wanted.event}
            detail = {name: str(value) for name, value in named.items() if value is not None}
            await record(
                connection,
                tenant,
                by,
                "redrive_deliveries",
                "webhook_deliveries",
                {"filter": detail, "count": len(rows)},
            )
    return len(rows)
