"""What operators decide, kept over restarts: pauses, and what devices and tenants may have.

Each decision is one transaction with its entry in the audit log; the queues are told afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy.dialects.postgresql import insert
from sqlmodel import col, select

from detectsched.db.audit import Actor, entry, record
from detectsched.db.connection import Ledger
from detectsched.db.data_keys import see_to_data_key
from detectsched.db.models import Device, Pause, Tenant
from detectsched.errors import NotFound
from detectsched.task import Entitlement, QueueId

_PAUSE: Final = """
INSERT INTO pause (what, tenant, reason, paused_by) VALUES ($1, $2, $3, $4)
ON CONFLICT (what) DO UPDATE SET reason = excluded.reason
RETURNING what, tenant, reason, paused_by, paused_at
"""

_RESUME: Final = "DELETE FROM pause WHERE what = $1 RETURNING what"

_HAS_OBJECT: Final = "SELECT EXISTS (SELECT FROM task WHERE tenant = $1 AND object = $2)"

_HELD: Final = """
    coalesce(d.in_flight, 0) AS in_flight, coalesce(d.weight, n.device_weight) AS weight, coalesce(d.rate, 0) AS rate,
    coalesce(d.burst, 0) AS burst, n.weight AS tenant_weight, n.rate AS tenant_rate, n.burst AS tenant_burst
"""

# ruff: noqa: S608 - the parts put together are constants of this file
_ENTITLEMENT: Final = f"""
SELECT {_HELD} FROM tenant n LEFT JOIN device d ON d.tenant = n.id AND d.mac = $2 WHERE n.id = $1
"""

_OPEN_ENTITLEMENTS: Final = f"""
SELECT t.queue, t.lane, {_HELD}
FROM (SELECT DISTINCT tenant, queue, lane, mac FROM task
      WHERE state IN ('queued', 'running') AND ($1::text IS NULL OR tenant = $1)
        AND ($2::text IS NULL OR (queue, lane) > ($2, $3))
      ORDER BY queue, lane LIMIT $4) t
JOIN tenant n ON n.id = t.tenant LEFT JOIN device d ON d.tenant = t.tenant AND d.mac = t.mac
ORDER BY t.queue, t.lane
"""


async def pause(ledger: Ledger, what: str, *, tenant: str | None, reason: str, by: Actor) -> Pause:
    """Note that something is paused, and return that; again changes the reason only."""
    async with ledger.transaction() as connection:
        row = await connection.fetchrow(_PAUSE, what, tenant, reason, by.name)
        await record(connection, tenant, by, "pause", what, {"reason": reason})
    return Pause(**dict(row))


async def resume(ledger: Ledger, what: str, *, tenant: str | None, by: Actor) -> bool:
    """Note that something goes on; False when it was not paused."""
    async with ledger.transaction() as connection:
        if await connection.fetchval(_RESUME, what) is None:
            return False
        await record(connection, tenant, by, "resume", what, {})
    return True


async def pauses(ledger: Ledger, *, tenant: str | None = None) -> Sequence[Pause]:
    """Return everything that is paused, or what of it concerns a tenant."""
    query = select(Pause).order_by(Pause.what)
    if tenant is not None:
        query = query.where((col(Pause.tenant) == tenant) | col(Pause.tenant).is_(None))
    async with ledger.reading() as session:
        return (await session.exec(query)).all()


async def paused_among(ledger: Ledger, whats: Sequence[str]) -> dict[str, Pause]:
    """Return those of the named things that are paused."""
    async with ledger.reading() as session:
        found = (await session.exec(select(Pause).where(col(Pause.what).in_(whats)))).all()
    return {row.what: row for row in found}


async def device(ledger: Ledger, tenant: str, mac: str) -> Device:
    """Return a device.

    Raises:
        NotFound: the tenant has no such device.
    """
    async with ledger.reading() as session:
        row = await session.get(Device, (tenant, mac))
    if row is None:
        raise NotFound(f"there is no device {mac}")
    return row


async def devices(ledger: Ledger, tenant: str, *, after: str | None, limit: int) -> Sequence[Device]:
    """Return devices of a tenant by MAC address, beginning after the one given."""
    query = select(Device).where(Device.tenant == tenant).order_by(Device.mac).limit(limit)
    if after is not None:
        query = query.where(col(Device.mac) > after)
    async with ledger.reading() as session:
        return (await session.exec(query)).all()


async def has_object(ledger: Ledger, tenant: str, name: str) -> bool:
    """Whether a tenant has ever had a task of an object that is still kept."""
    async with ledger.connection() as connection:
        return bool(await connection.fetchval(_HAS_OBJECT, tenant, name))


async def tenant_of(ledger: Ledger, tenant: str) -> Tenant:
    """Return a tenant.

    Raises:
        NotFound: there is no such tenant.
    """
    async with ledger.reading() as session:
        row = await session.get(Tenant, tenant)
    if row is None:
        raise NotFound(f"there is no tenant {tenant!r}")
    return row


async def change_device(ledger: Ledger, tenant: str, mac: str, changes: Mapping[str, Any], *, by: Actor) -> Device:
    """Change a device's name, weight, in_flight, rate or burst; a device not seen yet is made.

    ``changes`` holds the columns to set; weight None means the tenant's default.
    """
    async with ledger.session() as session:
        # It may be making itself known at this very moment.
        await session.exec(insert(Device).values(tenant=tenant, mac=mac).on_conflict_do_nothing())
        [row] = await session.exec(select(Device).where(Device.tenant == tenant, Device.mac == mac).with_for_update())
        for column, value in changes.items():
            setattr(row, column, value)
        session.add(row)
        session.add(entry(tenant, by, "change_device", mac, changes))
    return row


async def change_tenant(ledger: Ledger, tenant: str, changes: Mapping[str, Any], *, by: Actor) -> Tenant:
    """Change a tenant's weight, device_weight, rate, burst or encrypt_at_rest.

    Raises:
        Conflict: it is to be encrypted at rest, and the server has no master key.
        NotFound: there is no such tenant.
    """
    async with ledger.session() as session:
        row = await session.get(Tenant, tenant, with_for_update=True)
        if row is None:
            raise NotFound(f"there is no tenant {tenant!r}")
        for column, value in changes.items():
            setattr(row, column, value)
        session.add(row)
        if changes.get("encrypt_at_rest"):
            await see_to_data_key(session, ledger.master, tenant)
        session.add(entry(tenant, by, "change_tenant", tenant, changes))
    ledger.data_keys.forget(tenant)
    return row


async def entitlement(ledger: Ledger, tenant: str, mac: str | None) -> Entitlement:
    """Return what a device's queues may have; with no device, what an object's queue may have."""
    async with ledger.connection() as connection:
        row = await connection.fetchrow(_ENTITLEMENT, tenant, mac)
    if row is None:
        raise NotFound(f"there is no tenant {tenant!r}")
    return _entitlement(row)


async def open_entitlements(
    ledger: Ledger, tenant: str | None, *, after: tuple[str, str] | None, limit: int
) -> list[tuple[QueueId, str, Entitlement]]:
    """Return, for queues in which something is open, their lane and what they may have.

    Of one tenant, or of all; by queue and lane, beginning behind ``after``.
    """
    queue, lane = after or (None, None)
    async with ledger.connection() as connection:
        rows = await connection.fetch(_OPEN_ENTITLEMENTS, tenant, queue, lane, limit)
    return [(QueueId.parse(row["queue"]), row["lane"], _entitlement(row)) for row in rows]


def milliseconds(moment: datetime) -> int:
    """Return a time as Redis keeps it."""
    return round(moment.timestamp() * 1000)


def _entitlement(row: Any) -> Entitlement:
    return Entitlement(
        limit=row["in_flight"],
        weight=row["weight"],
        rate=row["rate"],
        burst=row["burst"],
        tenant_weight=row["tenant_weight"],
        tenant_rate=row["tenant_rate"],
        tenant_burst=row["tenant_burst"],
    )
