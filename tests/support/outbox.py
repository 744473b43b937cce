"""What tests of commands, webhooks and callbacks act with, on a ledger alone."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

from detectsched.attempt import Ending, Started
from detectsched.command import CommandKind, CommandPolicy
from detectsched.db.accept import accept
from detectsched.db.audit import Actor
from detectsched.db.command_policies import put_policy
from detectsched.db.connection import Ledger
from detectsched.db.results import end
from detectsched.db.starts import start
from detectsched.db.webhooks import create_webhook
from detectsched.detection import Detection, Hit, ListVersion
from detectsched.task import DEFAULT_TENANT, Delivery, TaskError, TaskState, new_task_id
from detectsched.webhooks.signing import new_secret
from tests.support.actors import new_text

SOMEBODY: Final = Actor("key test", "request-1")
LISTS: Final = (ListVersion("fraud", 3),)


def found(*levels: int, category: str = "fraud") -> Detection:
    """Return a detection with a hit of each level."""
    hits = [Hit(f"word{level}", category, level, 0, 5, "found", LISTS[0]) for level in levels]
    return Detection(tuple(hits), LISTS)


@dataclass
class Outbox:
    """A tenant's outbox."""

    ledger: Ledger
    tenant: str = DEFAULT_TENANT

    async def policy(self, name: str = "tell", kind: CommandKind = CommandKind.NOTIFY, **fields: Any) -> None:
        """Make a policy."""
        enabled = fields.pop("enabled", True)
        await put_policy(self.ledger, self.tenant, CommandPolicy(name, kind, **fields), enabled=enabled, by=SOMEBODY)

    async def webhook(self, url: str, *events: str) -> tuple[UUID, str]:
        """Make a webhook; return its id and its secret."""
        secret = new_secret()
        made = await create_webhook(
            self.ledger,
            self.tenant,
            url=url,
            events=events or ("command.notify",),
            secret=secret,
            most=100,
            by=SOMEBODY,
        )
        return made.id, secret

    async def begin(self, device: int = 1, *, callback_url: str | None = None, object: str | None = None) -> Started:  # noqa: A002
        """Accept a text and start it."""
        wanted = replace(new_text(device, tenant=self.tenant), callback_url=callback_url, request_id="request-7")
        if object is not None:
            wanted = replace(wanted, mac=None, object=object)
        [accepted] = await accept(self.ledger, [wanted])
        [started] = await start(self.ledger, [Delivery(accepted.task.id, 1, "text", "1-1")], runner="r1")
        assert isinstance(started, Started)
        return started

    async def finish(
        self,
        started: Started,
        detection: Detection | None = None,
        *,
        state: TaskState = TaskState.SUCCEEDED,
        error: TaskError | None = None,
        spends: bool = False,
    ) -> bool:
        """End a start; False when it was fenced off."""
        detection = detection or (Detection((), LISTS) if state is TaskState.SUCCEEDED else None)
        ending = Ending(started.delivery.task_id, started.tenant, started.fence, state, spends, error, detection)
        [effective] = await end(self.ledger, [ending])
        return effective

    async def write(self, count: int = 1, **body: Any) -> list[UUID]:
        """Write commands as if hits had been followed by them; return their ids."""
        ids = [new_task_id() for _ in range(count)]
        async with self.ledger.transaction() as connection:
            await connection.executemany(
                "INSERT INTO command (id, tenant, mac, kind, policy, level, body) "
                "VALUES ($1, $2, '02:00:00:00:00:01', 'notify', 'tell', 1, $3)",
                [(command, self.tenant, body) for command in ids],
            )
        return ids

    async def rows(self, table: str) -> list[dict[str, Any]]:
        """Return everything in a table, oldest first."""
        order = "id" if table == "audit_log" else "created_at, id"
        async with self.ledger.connection() as connection:
            return [dict(row) for row in await connection.fetch(f"SELECT * FROM {table} ORDER BY {order}")]  # noqa: S608

    async def deliveries(self) -> list[dict[str, Any]]:
        """Return the outbox, oldest first."""
        return await self.rows("webhook_delivery")

    async def make_due(self) -> None:
        """Let the waits of everything that is pending be over."""
        async with self.ledger.connection() as connection:
            await connection.execute("UPDATE webhook_delivery SET next_at = now() WHERE state = 'pending'")

    async def execute(self, statement: str, *values: Any) -> None:
        """Change something behind everybody's back."""
        async with self.ledger.connection() as connection:
            await connection.execute(statement, *values)


def canonical(document: Any) -> bytes:
    """Return a body as it is sent."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()
