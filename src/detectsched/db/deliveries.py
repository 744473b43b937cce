"""The outbox of webhooks: what is due is claimed, sent, and marked; what cannot be sent is dead and may go again.

A claim is a lease: it moves the due time to its own end, so that what a dead sender had claimed is due again by
itself. That end is also its fence: the mark of a sender whose claim somebody else has taken over changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from detectsched.db.connection import Ledger
from detectsched.db.signing_secrets import opened_secret
from detectsched.errors import SealBroken
from detectsched.sealing import MasterKeys
from detectsched.telemetry import get_logger

log = get_logger(__name__)


class DeliveryState(StrEnum):
    """Where a message to one address stands."""

    PENDING = "pending"
    """It is to be sent, or sent again."""
    DELIVERED = "delivered"
    """The address has taken it (2xx)."""
    DEAD = "dead"
    """Given up: too often, too old, or the address wants nothing more."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """A message that is ours to send until the claim runs out.

    ``secrets`` are the current one and those that have not retired, the newest first, as far as they can be opened.
    ``age_seconds`` counts from when it was written or driven again.
    """

    id: UUID
    message_id: UUID
    tenant: str
    channel: str
    webhook_id: UUID | None
    url: str
    event: str
    body: bytes
    attempt: int
    until: datetime
    age_seconds: float
    secrets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """What became of a claim, named by its end; ``delay_seconds`` is when a pending message is due again."""

    id: UUID
    until: datetime
    state: DeliveryState
    delay_seconds: float = 0.0
    status: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Totals:
    """The figures of the outbox; ``delivered`` and ``failed`` count sends since ever."""

    pending: int = 0
    dead: int = 0
    delivered: int = 0
    failed: int = 0


# Each channel yields no more than its share, so that a slow address with a long backlog leaves room for the others, and
# tenants take turns, each up to its own share. The recursion steps from channel to channel through the index: it costs
# as many look-ups as there are channels.
_CLAIM: Final = """
WITH RECURSIVE channels AS (
    (SELECT channel FROM webhook_delivery WHERE state = 'pending' ORDER BY channel LIMIT 1)
    UNION ALL
    SELECT (SELECT d.channel FROM webhook_delivery d WHERE d.state = 'pending' AND d.channel > c.channel
            ORDER BY d.channel LIMIT 1)
    FROM channels c WHERE c.channel IS NOT NULL
), busy AS (
    SELECT * FROM unnest($1::text[], $2::text[], $3::int[]) AS busy (tenant, channel, count)
), candidate AS (
    SELECT d.id, d.next_at, coalesce((SELECT sum(busy.count) FROM busy WHERE busy.tenant = d.tenant), 0)
        + row_number() OVER (PARTITION BY d.tenant ORDER BY coalesce(b.count, 0), d.next_at) AS turn
    FROM channels c
    LEFT JOIN webhook w ON w.id::text = c.channel
    LEFT JOIN busy b ON b.channel = c.channel
    CROSS JOIN LATERAL (
        SELECT id, tenant, next_at FROM webhook_delivery
        WHERE channel = c.channel AND state = 'pending' AND next_at <= now()
        ORDER BY next_at LIMIT greatest($4 - coalesce(b.count, 0), 0)
        FOR UPDATE SKIP LOCKED
    ) d
    WHERE coalesce(w.enabled, true)
), due AS (
    SELECT id FROM candidate WHERE turn <= $5 ORDER BY turn, next_at LIMIT $6
)
UPDATE webhook_delivery d SET attempts = d.attempts + 1, next_at = now() + $7 * interval '1 second'
FROM due WHERE d.id = due.id
RETURNING d.id, d.message_id, d.tenant, d.channel, d.webhook_id, d.event, d.body, d.attempts, d.next_at,
    coalesce(d.url, (SELECT w.url FROM webhook w WHERE w.id = d.webhook_id)) AS url,
    extract(epoch FROM now() - d.queued_at)::float8 AS age,
    ARRAY(SELECT s.secret FROM webhook_secret s
          WHERE s.tenant = d.tenant AND s.webhook_id IS NOT DISTINCT FROM d.webhook_id
            AND coalesce(s.retires_at > now(), true) ORDER BY s.id DESC LIMIT 3) AS secrets
"""

_MARK: Final = """
WITH marked AS (
    UPDATE webhook_delivery d SET state = g.state, next_at = now() + g.delay * interval '1 second',
        last_status = g.status, last_error = g.error, done_at = CASE WHEN g.state <> 'pending' THEN now() END
    FROM unnest($1::uuid[], $2::timestamptz[], $3::text[], $4::float8[], $5::int[], $6::text[])
        AS g (id, until, state, delay, status, error)
    WHERE d.id = g.id AND d.next_at = g.until AND d.state = 'pending'
    RETURNING d.id, d.state
), counted AS (
    INSERT INTO webhook_total AS t (outcome, count)
    SELECT CASE WHEN state = 'delivered' THEN 'delivered' ELSE 'failed' END AS outcome, count(*)
    FROM marked GROUP BY 1 ORDER BY 1
    ON CONFLICT (outcome) DO UPDATE SET count = t.count + excluded.count
)
SELECT id FROM marked
"""

# What is being sent is left alone: its due time is the end of its claim.
_BURY: Final = """
UPDATE webhook_delivery SET state = 'dead', done_at = now(), last_error = coalesce(last_error, 'too_old')
WHERE id IN (SELECT id FROM webhook_delivery
             WHERE state = 'pending' AND queued_at < now() - $1 * interval '1 second' AND next_at <= now()
             ORDER BY queued_at LIMIT $2 FOR UPDATE SKIP LOCKED)
RETURNING id
"""

_TOTALS: Final = """
SELECT (SELECT count(*) FROM webhook_delivery WHERE state = 'pending') AS pending,
    (SELECT count(*) FROM webhook_delivery WHERE state = 'dead') AS dead,
    coalesce((SELECT count FROM webhook_total WHERE outcome = 'delivered'), 0) AS delivered,
    coalesce((SELECT count FROM webhook_total WHERE outcome = 'failed'), 0) AS failed
"""


async def claim(
    ledger: Ledger,
    *,
    sending: Mapping[tuple[str, str], int],
    per_channel: int,
    per_tenant: int,
    limit: int,
    lease_seconds: float,
) -> list[Claimed]:
    """Claim messages that are due, at most ``limit``.

    Together with those that the caller is sending already (``sending``: how many, by tenant and channel) there are no
    more than ``per_channel`` of any channel and no more than ``per_tenant`` of any tenant.
    """
    busy = list(sending)
    async with ledger.connection() as connection:
        rows = await connection.fetch(
            _CLAIM,
            [tenant for tenant, _ in busy],
            [channel for _, channel in busy],
            [sending[each] for each in busy],
            per_channel,
            per_tenant,
            limit,
            lease_seconds,
        )
    return [_claimed(row, ledger.master) for row in rows]


async def mark(ledger: Ledger, marks: Sequence[Mark]) -> list[bool]:
    """Write what became of attempts; False for one whose claim had been taken over."""
    async with ledger.connection() as connection:
        rows = await connection.fetch(
            _MARK,
            [mark.id for mark in marks],
            [mark.until for mark in marks],
            [mark.state.value for mark in marks],
            [mark.delay_seconds for mark in marks],
            [mark.status for mark in marks],
            [mark.error for mark in marks],
        )
    marked = {UUID(str(row["id"])) for row in rows}
    return [mark.id in marked for mark in marks]


async def bury_old(ledger: Ledger, *, max_age_seconds: float, limit: int) -> int:
    """Give up what has waited for too long, also for a webhook that is disabled; return how many."""
    async with ledger.connection() as connection:
        return len(await connection.fetch(_BURY, max_age_seconds, limit))


async def totals(ledger: Ledger) -> Totals:
    """Return the figures of all tenants together."""
    async with ledger.connection() as connection:
        row = await connection.fetchrow(_TOTALS)
    return Totals(**dict(row))


def _claimed(row: Any, master: MasterKeys) -> Claimed:
    return Claimed(
        id=UUID(str(row["id"])),
        message_id=UUID(str(row["message_id"])),
        tenant=row["tenant"],
        channel=row["channel"],
        webhook_id=None if row["webhook_id"] is None else UUID(str(row["webhook_id"])),
        url=row["url"],
        event=row["event"],
        # The same bytes at every attempt: they are what is signed.
        body=json.dumps(row["body"], ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode(),
        attempt=row["attempts"],
        until=row["next_at"],
        age_seconds=row["age"],
        secrets=tuple(_opened(row["secrets"], row["tenant"], master)),
    )


def _opened(secrets: Sequence[str], tenant: str, master: MasterKeys) -> Iterator[str]:
    for kept in secrets:
        try:
            yield opened_secret(master, tenant, kept)
        except SealBroken as error:
            log.warning("a secret of webhooks cannot be opened", tenant=tenant, error=error.detail)
