"""A ledger in which transactions overlap, die and come late, and a journal of what was really committed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg

from detectsched.db.connection import Connection, Ledger
from detectsched.db.recount import compare
from detectsched.db.reported import NewReport, ReportedHit, store
from detectsched.db.statistics import _COUNT_OLDEST, count_due, count_tasks, hold_sums
from detectsched.task import DEFAULT_TENANT, new_task_id

BASE = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
EVER = (BASE - timedelta(days=30), BASE + timedelta(days=30))

_OPEN_TASK = """
INSERT INTO task (id, tenant, kind, lane, queue, mac, object, cost, created_at, expires_at, text)
VALUES ($1, 'default', 'text', $2, 'object:default:o', $3, 'o', 1, $4::timestamptz, $4::timestamptz + interval '1 hour',
        't')
"""
_END = "UPDATE task SET state = $2, finished_at = $3, started_at = $4, runner = $5 WHERE id = $1"
_DETECTION = "INSERT INTO detection (task_id, tenant, state, fence, hit_count) VALUES ($1, 'default', 'success', 1, $2)"
_HIT = """
INSERT INTO hit (tenant, task_id, list_id, list_version, word, category, level, start_offset, end_offset, matched)
VALUES ('default', $1, 'l', 1, $2, $3, 1, 0, 1, 'm')
"""
_EMPTY = "TRUNCATE task, report, stat_due, stat_hourly, stat_device, stat_word, stat_removed CASCADE"


@dataclass(frozen=True)
class Fact:
    """How a task ended, or what a device reported."""

    state: str
    lane: str = "text"
    mac: str | None = None
    hours_ago: int = 0
    words: tuple[tuple[str, str], ...] = ()
    """Category and word of each hit."""
    wait: timedelta = timedelta(seconds=1)
    run: timedelta | None = timedelta(seconds=1)
    """None: no runner ended it."""

    @property
    def at(self) -> datetime:
        """When it ended, or was detected."""
        return BASE - timedelta(hours=self.hours_ago)

    @property
    def key(self) -> tuple[datetime, str, str]:
        """The hour, the lane and the state that it counts in."""
        return self.at.replace(minute=0), self.lane, self.state


@dataclass
class Writer:
    """A transaction that is not over."""

    connection: Any
    transaction: Any
    facts: list[Fact]


@dataclass
class Books:
    """The ledger and the journal."""

    url: str
    ledger: Ledger
    journal: list[Fact] = field(default_factory=list)
    writers: list[Writer] = field(default_factory=list)
    counter: Writer | None = None
    dead: dict[UUID, None] = field(default_factory=dict)
    reports: int = 0
    met: set[str] = field(default_factory=set)

    async def empty(self) -> None:
        """Begin anew."""
        async with self.ledger.connection() as connection:
            await connection.execute(_EMPTY)
        self.journal, self.writers, self.counter, self.dead, self.reports = [], [], None, {}, 0

    async def close(self) -> None:
        """Roll back whatever is open."""
        for writer in [*self.writers, *([self.counter] if self.counter else [])]:
            await writer.connection.close()
        self.writers, self.counter = [], None

    async def write(self, facts: list[Fact], *, stay_open: bool) -> None:
        """End tasks in a transaction of its own, that stays open if wanted."""
        connection = await asyncpg.connect(self.url)
        transaction = connection.transaction()
        await transaction.start()
        for fact in facts:
            task_id = await end_task(connection, fact)
            if fact.state == "dead":
                self.dead[task_id] = None
        self.writers.append(Writer(connection, transaction, facts))
        if not stay_open:
            await self.commit(-1)

    async def commit(self, which: int) -> None:
        """Commit one of the open transactions."""
        if self.writers:
            writer = self.writers.pop(which % len(self.writers) if which >= 0 else -1)
            await writer.transaction.commit()
            await writer.connection.close()
            self.journal += writer.facts

    async def roll_back(self, which: int) -> None:
        """Kill the process that wrote one of them: its connection ends without a commit."""
        if self.writers:
            writer = self.writers.pop(which % len(self.writers))
            await writer.connection.close()

    async def report(self, fact: Fact) -> None:
        """Have a device report."""
        self.reports += 1
        hits = tuple(ReportedHit(word, category, 1, count) for (category, word), count in Counter(fact.words).items())
        new = NewReport(str(self.reports), fact.mac or "02:00:00:00:00:01", "text", fact.at, False, hits, b"h", {})
        await store(self.ledger, DEFAULT_TENANT, [new])
        self.journal.append(fact)

    async def count(self, limit: int) -> None:
        """Have a dispatcher count; while another one does, it must find that out."""
        counted = await count_due(self.ledger, limit=limit)
        assert (counted is None) is (self.counter is not None)
        if counted is None:
            self.met.add("two counted at once")

    async def begin_count(self, limit: int) -> None:
        """Have a dispatcher count and stop just before its commit."""
        if self.counter is None:
            connection = await asyncpg.connect(self.url)
            transaction = connection.transaction()
            await transaction.start()
            await hold_sums(connection)
            await connection.fetchval(_COUNT_OLDEST, limit)
            self.counter = Writer(connection, transaction, [])

    async def end_count(self, *, dies: bool) -> None:
        """Have it commit, or kill it there."""
        if self.counter is not None:
            if not dies:
                await self.counter.transaction.commit()
            await self.counter.connection.close()
            self.counter = None
            self.met.add("died between its statements" if dies else "committed late")

    async def remove(self) -> None:
        """Remove the dead letters, as a purge does."""
        if self.dead and self.counter is None and not self.writers:
            async with self.ledger.transaction() as connection:
                await count_tasks(connection, list(self.dead))
                await connection.execute("DELETE FROM task WHERE id = ANY ($1::uuid[])", list(self.dead))
            self.dead.clear()
            self.met.add("removed")

    async def check(self) -> None:
        """Compare what is counted with a recount: they agree at any moment, whatever is under way."""
        found = await compare(self.ledger, *EVER)
        assert found.different == 0, found

    async def check_all(self) -> None:
        """Let everything commit and be counted; then the sums are those of the journal."""
        await self.end_count(dies=False)
        while self.writers:
            await self.commit(0)
        while await count_due(self.ledger, limit=3):
            pass
        await self.check()
        assert await self.sums("stat_hourly", "lane, state") == self.expected()
        by_device = await self.sums("stat_device", "mac, lane, state")
        assert sum(by_device.values()) == len(self.journal)
        words = Counter((*fact.key[:1], *pair, fact.lane) for fact in self.journal for pair in fact.words)
        assert await self.sums("stat_word", "category, word, lane", "hits", "word <> ''") == words
        categories = Counter(
            (fact.key[0], category, fact.lane)
            for fact in self.journal
            for category in {category for category, _ in fact.words}
        )
        assert await self.sums("stat_word", "category, lane", "tasks", "word = ''") == categories

    def expected(self) -> Counter[tuple[Any, ...]]:
        """Return the journal by hour, lane and state."""
        return Counter(fact.key for fact in self.journal)

    async def sums(self, table: str, key: str, measure: str = "tasks", where: str = "true") -> Counter[tuple[Any, ...]]:
        """Return a measure of a table by hour and a key."""
        query = f"SELECT hour, {key}, sum({measure})::bigint FROM {table} WHERE {where} GROUP BY hour, {key}"  # noqa: S608
        async with self.ledger.connection() as connection:
            rows = await connection.fetch(query)
        return Counter({tuple(row)[:-1]: row[-1] for row in rows})


async def end_task(connection: Connection, fact: Fact) -> UUID:
    """Accept a task and end it."""
    task_id = new_task_id()
    started = fact.at - (fact.run or timedelta(0))
    await connection.execute(_OPEN_TASK, task_id, fact.lane, fact.mac, started - fact.wait)
    if fact.state == "succeeded":
        await connection.execute(_DETECTION, task_id, len(fact.words))
        await connection.executemany(_HIT, [(task_id, word, category) for category, word in fact.words])
    await connection.execute(_END, task_id, fact.state, fact.at, started, None if fact.run is None else "r")
    return task_id
