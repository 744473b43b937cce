"""The webhooks of tenants, and the secrets that sign what is sent to them and to the callbacks of tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID, uuid4

from sqlmodel import col, select

from detectsched.db.audit import Actor, entry, record
from detectsched.db.connection import Connection, Ledger
from detectsched.db.models import Webhook
from detectsched.db.signing_secrets import opened_secret, sealed_secret
from detectsched.errors import Conflict, NotFound

_NO_WEBHOOK: Final = "there is no such webhook"

# Two rotations at once would leave two current secrets, neither of which ever retires.
_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended('webhooks of ' || $1, 0))"

_COUNT: Final = "SELECT count(*) FROM webhook WHERE tenant = $1"

_CREATE: Final = """
INSERT INTO webhook (id, tenant, url, events) VALUES ($1, $2, $3, $4)
RETURNING id, tenant, url, events, enabled, disabled_reason, created_at
"""

_RETIRE: Final = """
UPDATE webhook_secret SET retires_at = now() + $3 * interval '1 second'
WHERE tenant = $1 AND webhook_id IS NOT DISTINCT FROM $2 AND retires_at IS NULL
RETURNING retires_at
"""

_FORGET_RETIRED: Final = """
DELETE FROM webhook_secret WHERE tenant = $1 AND webhook_id IS NOT DISTINCT FROM $2 AND retires_at <= now()
"""

_KEEP: Final = "INSERT INTO webhook_secret (tenant, webhook_id, secret) VALUES ($1, $2, $3)"

_CALLBACKS: Final = "SELECT secret FROM webhook_secret WHERE tenant = $1 AND webhook_id IS NULL AND retires_at IS NULL"

_DISABLE: Final = """
UPDATE webhook SET enabled = false, disabled_reason = $2 WHERE id = $1 AND enabled RETURNING tenant, url
"""

_BURY_PENDING: Final = """
UPDATE webhook_delivery SET state = 'dead', done_at = now(), last_error = 'webhook_disabled'
WHERE channel = $1 AND state = 'pending'
"""


async def create_webhook(
    ledger: Ledger, tenant: str, *, url: str, events: Sequence[str], secret: str, most: int, by: Actor
) -> Webhook:
    """Make a webhook with its secret.

    Raises:
        Conflict: the tenant has ``most`` already.
    """
    async with ledger.transaction() as connection:
        await connection.execute(_LOCK, tenant)
        if await connection.fetchval(_COUNT, tenant) >= most:
            raise Conflict(f"the tenant has {most} webhooks, which is the most: delete one")
        row = await connection.fetchrow(_CREATE, uuid4(), tenant, url, list(events))
        await connection.execute(_KEEP, tenant, row["id"], sealed_secret(ledger.master, tenant, secret))
        await record(connection, tenant, by, "create_webhook", str(row["id"]), {"url": url, "events": list(events)})
    return Webhook(**dict(row))


async def webhooks(ledger: Ledger, tenant: str) -> Sequence[Webhook]:
    """Return the webhooks of a tenant, the oldest first."""
    query = select(Webhook).where(Webhook.tenant == tenant).order_by(col(Webhook.created_at), col(Webhook.id))
    async with ledger.reading() as session:
        return (await session.exec(query)).all()


async def webhook(ledger: Ledger, tenant: str, webhook_id: UUID) -> Webhook:
    """Return a webhook.

    Raises:
        NotFound: the tenant has no such webhook.
    """
    query = select(Webhook).where(Webhook.tenant == tenant, Webhook.id == webhook_id)
    async with ledger.reading() as session:
        row = (await session.exec(query)).first()
    if row is None:
        raise NotFound(_NO_WEBHOOK)
    return row


async def change_webhook(
    ledger: Ledger, tenant: str, webhook_id: UUID, changes: Mapping[str, Any], *, by: Actor
) -> Webhook:
    """Change a webhook's url, events or whether it is enabled; enabling it forgets why it was disabled.

    Raises:
        NotFound: the tenant has no such webhook.
    """
    query = select(Webhook).where(Webhook.tenant == tenant, Webhook.id == webhook_id).with_for_update()
    async with ledger.session() as session:
        row = (await session.exec(query)).first()
        if row is None:
            raise NotFound(_NO_WEBHOOK)
        for column, value in changes.items():
            setattr(row, column, value)
        if "enabled" in changes:
            row.disabled_reason = None if row.enabled else "by_tenant"
        session.add(row)
        session.add(entry(tenant, by, "change_webhook", str(webhook_id), changes))
    return row


async def delete_webhook(ledger: Ledger, tenant: str, webhook_id: UUID, *, by: Actor) -> None:
    """Delete a webhook, with its secrets and everything that was to be sent to it.

    Raises:
        NotFound: the tenant has no such webhook.
    """
    async with ledger.transaction() as connection:
        gone = await connection.fetchval(
            "DELETE FROM webhook WHERE tenant = $1 AND id = $2 RETURNING url", tenant, webhook_id
        )
        if gone is None:
            raise NotFound(_NO_WEBHOOK)
        await record(connection, tenant, by, "delete_webhook", str(webhook_id), {"url": gone})


async def rotate_secret(
    ledger: Ledger, tenant: str, webhook_id: UUID | None, secret: str, *, overlap_seconds: float, by: Actor
) -> datetime | None:
    """Sign with a new secret from now on, and with the one before as well for a while; return until when.

    ``webhook_id`` None means the tenant's callbacks. None is returned when there was no secret before.

    Raises:
        NotFound: the tenant has no such webhook.
    """
    async with ledger.transaction() as connection:
        await connection.execute(_LOCK, tenant)
        if webhook_id is not None and not await _has_webhook(connection, tenant, webhook_id):
            raise NotFound(_NO_WEBHOOK)
        await connection.execute(_FORGET_RETIRED, tenant, webhook_id)
        retires_at: datetime | None = await connection.fetchval(_RETIRE, tenant, webhook_id, overlap_seconds)
        await connection.execute(_KEEP, tenant, webhook_id, sealed_secret(ledger.master, tenant, secret))
        await record(connection, tenant, by, "rotate_webhook_secret", str(webhook_id or "callbacks"), {})
    return retires_at


async def ensure_callback_secret(ledger: Ledger, tenant: str, secret: str) -> str:
    """Keep a secret for a tenant's callbacks if it has none, and return the current one: nothing is sent unsigned.

    Raises:
        SealBroken: there is one whose master key is gone.
    """
    async with ledger.transaction() as connection:
        await connection.execute(_LOCK, tenant)
        current: str | None = await connection.fetchval(_CALLBACKS, tenant)
        if current is None:
            await connection.execute(_KEEP, tenant, None, sealed_secret(ledger.master, tenant, secret))
    return secret if current is None else opened_secret(ledger.master, tenant, current)


async def disable_webhook(ledger: Ledger, webhook_id: UUID, *, reason: str, by: Actor) -> bool:
    """Send no more to a webhook, and give up what still waits for it; False if it was disabled before."""
    async with ledger.transaction() as connection:
        row = await connection.fetchrow(_DISABLE, webhook_id, reason)
        if row is None:
            return False
        await connection.execute(_BURY_PENDING, str(webhook_id))
        await record(connection, row["tenant"], by, "disable_webhook", str(webhook_id), {"reason": reason})
    return True


async def _has_webhook(connection: Connection, tenant: str, webhook_id: UUID) -> bool:
    found = await connection.fetchval("SELECT id FROM webhook WHERE tenant = $1 AND id = $2", tenant, webhook_id)
    return found is not None
