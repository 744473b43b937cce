"""Everything that the checker looks at, gathered once at rest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar
from uuid import UUID

from chaos.history import Change, Interval, intervals_of, read_history
from chaos.journal import Record, Run, read_journal
from chaos.snapshot import Snapshot
from detectsched.db.connection import Ledger
from detectsched.db.open_tasks import open_page
from detectsched.dispatcher.placing import placement_of
from detectsched.queueing.connection import RedisClients
from detectsched.queueing.keys import is_owned_without_ttl
from detectsched.queueing.queue import Placement, Queue
from detectsched.settings import Settings

TERMINAL: Final = frozenset({"succeeded", "failed", "dead", "expired", "cancelled"})
"""Written out: the checker does not take the word of the code that it checks."""
STATES: Final = TERMINAL | {"queued", "running"}

_ROWS: Final = """
SELECT t.id, t.tenant, t.queue, t.object, t.state, t.fence, t.attempts, t.idempotency_key AS key, t.sequence,
       t.redrive_of IS NOT NULL AS redriven,
       extract(epoch FROM t.started_at)::float8 AS started, extract(epoch FROM t.finished_at)::float8 AS finished,
       CASE WHEN d.state = 'success' THEN d.fence END AS judged_under, d.state AS detection
FROM task t LEFT JOIN detection d ON d.task_id = t.id ORDER BY t.sequence
"""
_MESSAGES: Final = """
SELECT task_id, kind, count(DISTINCT body) AS bodies FROM command WHERE task_id IS NOT NULL GROUP BY task_id, kind
"""

_DELIVERED: Final = "SELECT message_id FROM webhook_delivery WHERE state = 'delivered'"
_UNTOLD: Final = """
SELECT id FROM task t WHERE callback_url IS NOT NULL AND state NOT IN ('queued', 'running')
    AND NOT EXISTS (SELECT FROM webhook_delivery d WHERE d.task_id = t.id AND d.webhook_id IS NULL)
"""

Kind = TypeVar("Kind", bound=Record)


@dataclass(frozen=True, slots=True)
class Row:
    """A task as the ledger has it; ``judged_under`` is the fence of its judgement, None without one.

    ``detection`` is the state of its detection record, None where it was never started.
    """

    id: UUID
    tenant: str
    queue: str
    object: str | None
    state: str
    fence: int
    attempts: int
    key: str | None
    sequence: int
    redriven: bool
    started: float | None
    finished: float | None
    judged_under: int | None
    detection: str | None = None


@dataclass
class Evidence:
    """The journal, the ledger, and all that Redis holds; ``now_ms`` is Redis' clock at the look."""

    journal: list[Record] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    snapshot: Snapshot = field(default_factory=Snapshot)
    open: dict[UUID, Placement] = field(default_factory=dict)
    unowned: list[str] = field(default_factory=list)
    messages: dict[tuple[UUID, str], int] = field(default_factory=dict)
    delivered: set[UUID] = field(default_factory=set)
    """Messages to webhooks and callbacks that the ledger has as delivered."""
    untold: list[UUID] = field(default_factory=list)
    """Tasks that are over, without the message that was asked for."""
    now_ms: int = 0

    def records(self, kind: type[Kind]) -> list[Kind]:
        """Return the journal's records of one kind, in their order."""
        return [record for record in self.journal if isinstance(record, kind)]

    @property
    def run(self) -> Run | None:
        """What the journal says about the run, if it does."""
        return next(iter(self.records(Run)), None)

    def intervals(self) -> list[Interval]:
        """Return when tasks ran, by the history; without one, by the last start and end of each."""
        if self.changes:
            return intervals_of(self.changes)
        return [
            Interval(row.id, row.tenant, row.object, row.fence, None, row.started, row.finished, row.state)
            for row in self.rows
            if row.started is not None
        ]


async def gather(settings: Settings, journal: Path | Iterable[Record]) -> Evidence:
    """Read everything: at rest, or the picture is blurred.

    Raises:
        StoreUnavailable: a store is away.
    """
    clients, ledger = RedisClients(settings.redis, name="check"), Ledger(settings.postgres)
    try:
        return await gather_from(Queue(clients, settings), clients.commands, ledger, settings, journal)
    finally:
        await clients.close()
        await ledger.close()


async def gather_from(
    queue: Queue, redis: Any, ledger: Ledger, settings: Settings, journal: Path | Iterable[Record]
) -> Evidence:
    """Read everything through connections that are there, by the queue's clock."""
    evidence = Evidence(list(read_journal(journal) if isinstance(journal, Path) else journal))
    await _read_ledger(evidence, ledger, settings, await queue.now_ms())
    evidence.snapshot = await Snapshot.read(queue, redis)
    evidence.unowned = await _unowned(redis)
    evidence.now_ms = await queue.now_ms()
    return evidence


async def _read_ledger(evidence: Evidence, ledger: Ledger, settings: Settings, now_ms: int) -> None:
    async with ledger.connection() as connection:
        evidence.rows = [Row(**{**dict(row), "id": UUID(str(row["id"]))}) for row in await connection.fetch(_ROWS)]
        evidence.changes = await read_history(connection)
        evidence.messages = {
            (UUID(str(row["task_id"])), row["kind"]): row["bodies"] for row in await connection.fetch(_MESSAGES)
        }
        evidence.delivered = {UUID(str(row["message_id"])) for row in await connection.fetch(_DELIVERED)}
        evidence.untold = [UUID(str(row["id"])) for row in await connection.fetch(_UNTOLD)]
    last = 0
    while page := await open_page(ledger, after=last, limit=2000):
        evidence.open |= {row.task.id: placement_of(row, settings.scheduler, now_ms=now_ms) for row in page}
        last = page.last


async def _unowned(redis: Any) -> list[str]:
    """Return keys without a TTL that belong to no documented family."""
    names = [name async for name in redis.scan_iter(count=1000)]
    pipe = redis.pipeline(transaction=False)
    for name in names:
        pipe.pttl(name)
    lives = await pipe.execute()
    return sorted(
        name.decode()
        for name, life in zip(names, lives, strict=True)
        if life == -1 and not is_owned_without_ttl(name.decode())
    )
