"""Which command follows which hits, per tenant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlmodel import col, delete, func, select

from detectsched.clock import utc_now
from detectsched.command import CommandKind, CommandPolicy
from detectsched.db.audit import Actor, entry
from detectsched.db.connection import Connection, Ledger
from detectsched.db.models import CommandPolicyRow
from detectsched.errors import Conflict, NotFound

MOST_POLICIES: Final = 100
"""Of one tenant: all of them are looked at for every task with hits."""

_IN_FORCE: Final = """
SELECT tenant, id, kind, min_level, max_level, categories, message, payload FROM command_policy
WHERE tenant = ANY ($1::text[]) AND enabled ORDER BY tenant, id
"""


async def put_policy(
    ledger: Ledger, tenant: str, policy: CommandPolicy, *, enabled: bool, by: Actor
) -> CommandPolicyRow:
    """Make a policy, or replace the one of that id.

    Raises:
        Conflict: the tenant has as many as it may.
    """
    columns: dict[str, Any] = {
        "kind": policy.kind.value,
        "min_level": policy.min_level,
        "max_level": policy.max_level,
        "categories": list(policy.categories),
        "message": policy.message,
        "payload": dict(policy.payload),
        "enabled": enabled,
    }
    async with ledger.session() as session:
        row = await session.get(CommandPolicyRow, (tenant, policy.id))
        if row is None:
            count = (await session.exec(select(func.count()).where(CommandPolicyRow.tenant == tenant))).one()
            if count >= MOST_POLICIES:
                raise Conflict(f"the tenant has {MOST_POLICIES} command policies, which is the most: delete one")
            now = utc_now()
            row = CommandPolicyRow(tenant=tenant, id=policy.id, created_at=now, updated_at=now, **columns)
        else:
            for name, value in {**columns, "updated_at": utc_now()}.items():
                setattr(row, name, value)
        session.add(row)
        session.add(entry(tenant, by, "put_command_policy", policy.id, columns))
    return row


async def delete_policy(ledger: Ledger, tenant: str, policy_id: str, *, by: Actor) -> None:
    """Delete a policy; what it has commanded stays.

    Raises:
        NotFound: there is no such policy.
    """
    async with ledger.session() as session:
        gone = await session.exec(
            delete(CommandPolicyRow).where(
                col(CommandPolicyRow.tenant) == tenant, col(CommandPolicyRow.id) == policy_id
            )
        )
        if not gone.rowcount:
            raise NotFound(f"there is no command policy {policy_id!r}")
        session.add(entry(tenant, by, "delete_command_policy", policy_id, {}))


async def policies(ledger: Ledger, tenant: str) -> Sequence[CommandPolicyRow]:
    """Return the policies of a tenant by id."""
    query = select(CommandPolicyRow).where(CommandPolicyRow.tenant == tenant).order_by(CommandPolicyRow.id)
    async with ledger.reading() as session:
        return (await session.exec(query)).all()


async def policy(ledger: Ledger, tenant: str, policy_id: str) -> CommandPolicyRow:
    """Return a policy.

    Raises:
        NotFound: there is no such policy.
    """
    async with ledger.reading() as session:
        row = await session.get(CommandPolicyRow, (tenant, policy_id))
    if row is None:
        raise NotFound(f"there is no command policy {policy_id!r}")
    return row


async def policies_in_force(connection: Connection, tenants: Sequence[str]) -> dict[str, list[CommandPolicy]]:
    """Return the enabled policies of some tenants, by tenant."""
    found: dict[str, list[CommandPolicy]] = {}
    for row in await connection.fetch(_IN_FORCE, sorted(set(tenants))):
        found.setdefault(row["tenant"], []).append(
            CommandPolicy(
                id=row["id"],
                kind=CommandKind(row["kind"]),
                min_level=row["min_level"],
                max_level=row["max_level"],
                categories=tuple(row["categories"]),
                message=row["message"],
                payload=row["payload"],
            )
        )
    return found
