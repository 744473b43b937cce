"""The audit log: who did what to what. An entry is written in the transaction of what it tells, or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from detectsched.db.connection import Connection
from detectsched.db.models import AuditLog


@dataclass(frozen=True, slots=True)
class Actor:
    """Who decides: a key, and the request it came with."""

    name: str
    request_id: str | None = None


_RECORD: Final = """
INSERT INTO audit_log (tenant, actor, action, subject, outcome, request_id, detail)
VALUES ($1, $2, $3, $4, 'done', $5, $6)
"""


async def record(
    connection: Connection, tenant: str | None, by: Actor, action: str, subject: str, detail: Mapping[str, Any]
) -> None:
    """Write an entry; tenant None is the platform itself, ``detail`` must be JSON."""
    await connection.execute(_RECORD, tenant or "", by.name, action, subject, by.request_id, dict(detail))


def entry(tenant: str | None, by: Actor, action: str, subject: str, detail: Mapping[str, Any]) -> AuditLog:
    """Return the same entry for an SQLModel session."""
    return AuditLog(
        tenant=tenant or "",
        actor=by.name,
        action=action,
        subject=subject,
        outcome="done",
        request_id=by.request_id,
        detail=dict(detail),
    )
