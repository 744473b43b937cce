"""Commands as devices take them and tenants look at them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import tuple_
from sqlmodel import col, select

from detectsched.command import CommandKind, CommandState
from detectsched.db.connection import Ledger
from detectsched.db.models import Command


@dataclass(frozen=True, slots=True)
class Addressee:
    """Whom a command is for: a device of a tenant, or an object (then ``is_object``)."""

    tenant: str
    name: str
    is_object: bool = False

    @classmethod
    def of_subject(cls, subject: str) -> Addressee:
        """Return whom a hint names: ``mac:<tenant>:<mac>`` or ``object:<tenant>:<name>``."""
        kind, tenant, name = subject.split(":", 2)
        return cls(tenant, name, kind == "object")


@dataclass(frozen=True, slots=True)
class CommandFilter:
    """Which commands to list; None means any."""

    state: CommandState | None = None
    kind: CommandKind | None = None
    mac: str | None = None
    object: str | None = None
    task_id: UUID | None = None


# What was acknowledged before is returned as well: whoever did not get the answer asks again.
_ACKNOWLEDGE: Final = """
UPDATE command SET state = 'acknowledged', done_at = coalesce(done_at, now())
WHERE tenant = $1 AND id = $2 AND {column} = $3
RETURNING *
"""
_ACKNOWLEDGE_DEVICE: Final = _ACKNOWLEDGE.format(column="mac")
_ACKNOWLEDGE_OBJECT: Final = _ACKNOWLEDGE.format(column="object")

_COMMANDED: Final = """
SELECT g.tenant, g.name, g.is_object FROM unnest($1::text[], $2::text[], $3::bool[]) AS g (tenant, name, is_object)
WHERE CASE WHEN g.is_object
           THEN EXISTS (SELECT FROM command c WHERE c.tenant = g.tenant AND c.object = g.name AND c.state = 'pending')
           ELSE EXISTS (SELECT FROM command c WHERE c.tenant = g.tenant AND c.mac = g.name AND c.state = 'pending') END
"""


async def pending_commands(ledger: Ledger, addressee: Addressee, *, limit: int) -> Sequence[Command]:
    """Return the commands that a device or object has not acknowledged, the oldest first."""
    query = (
        select(Command)
        .where(Command.tenant == addressee.tenant, Command.state == CommandState.PENDING.value)
        .where((Command.object if addressee.is_object else Command.mac) == addressee.name)
        .order_by(col(Command.created_at), col(Command.id))
        .limit(limit)
    )
    async with ledger.reading() as session:
        return (await session.exec(query)).all()


async def acknowledge(ledger: Ledger, addressee: Addressee, command_id: UUID) -> Command | None:
    """Note that a device or object has carried a command out; None when it has no such command."""
    statement = _ACKNOWLEDGE_OBJECT if addressee.is_object else _ACKNOWLEDGE_DEVICE
    async with ledger.connection() as connection:
        row: Any = await connection.fetchrow(statement, addressee.tenant, command_id, addressee.name)
    return None if row is None else Command(**dict(row))


async def commanded_among(ledger: Ledger, addressees: Sequence[Addressee]) -> list[Addressee]:
    """Return those of the given devices and objects, of whatever tenant, that have commands to take."""
    async with ledger.connection() as connection:
        rows = await connection.fetch(
            _COMMANDED,
            [each.tenant for each in addressees],
            [each.name for each in addressees],
            [each.is_object for each in addressees],
        )
    return [Addressee(row["tenant"], row["name"], row["is_object"]) for row in rows]


async def list_commands(
    ledger: Ledger, tenant: str, wanted: CommandFilter, *, before: tuple[datetime, UUID] | None, limit: int
) -> Sequence[Command]:
    """Return up to ``limit`` commands, the newest first, beginning after the position (created_at, id) given."""
    query = select(Command).where(Command.tenant == tenant)
    for column, value in (
        (Command.state, wanted.state),
        (Command.kind, wanted.kind),
        (Command.mac, wanted.mac),
        (Command.object, wanted.object),
        (Command.task_id, wanted.task_id),
    ):
        if value is not None:
            query = query.where(col(column) == value)
    if before is not None:
        query = query.where(tuple_(col(Command.created_at), col(Command.id)) < before)
    query = query.order_by(col(Command.created_at).desc(), col(Command.id).desc()).limit(limit)
    async with ledger.reading() as session:
        return (await session.exec(query)).all()


async def get_command(ledger: Ledger, tenant: str, command_id: UUID) -> Command | None:
    """Return a command; None when the tenant has no such command."""
    query = select(Command).where(Command.tenant == tenant, Command.id == command_id)
    async with ledger.reading() as session:
        return (await session.exec(query)).first()
