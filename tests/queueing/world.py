"""What the actors of the queue machine have done so far, and what must be true after every step of theirs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from hypothesis.stateful import RuleBasedStateMachine, invariant

from chaos.snapshot import Snapshot
from detectsched.queueing.connection import RedisClients
from detectsched.queueing.queue import Placement
from detectsched.settings import Settings
from detectsched.task import Entitlement
from tests.support.actors import Bench
from tests.support.fairness import Fairness

LANES: Final = ("ocr", "text")
CONSUMERS: Final = ("host:1:a", "host:2:b")
REAPER: Final = "reaper:host:9"
LEASE: Final = 60.0
QUANTUM: Final = 2
COST: Final = 2.0
SOMETIMES: Final = frozenset(
    {
        "an object waited out a back-off",
        "a delayed task came back",
        "a held task was handed over",
        "a former owner spoke while another held the task",
        "an expired task was settled",
        "a delivery was reclaimed",
        "a rebuild found tasks that were running",
        "a withdrawn task lay in a list",
        "a task was queued after a later one",
        "an object went on in another lane",
        "a queue was at its limit",
        "a queue backed off for its failures",
        "a queue waited for its rate",
        "a tenant waited for its rate",
        "something was paused that waited",
        "a lane without runners gave up on a task",
        "a runner ended a back-off",
        "a runner took the next task by itself",
    }
)
"""What a run must have met to be worth anything."""


class World(RuleBasedStateMachine):
    """Redis, a clock, and the memory of all actors: what is open, in whose hands, and who had it before."""

    def __init__(self, settings: Settings, met: set[str]) -> None:
        super().__init__()
        self.met = met
        self.loop = asyncio.Runner()
        self.now: Snapshot | None = None
        self.bench: Bench = self.do(on_empty_redis(settings))
        self.scripts = self.bench.queue.scripts
        self.open: dict[UUID, Placement] = {}
        self.late: list[Placement] = []
        self.hands: dict[UUID, tuple[str, int]] = {}
        self.started: dict[UUID, int] = {}
        self.stale: list[tuple[UUID, int]] = []
        self.cancelled: set[UUID] = set()
        # A turn of each of two queues (a quantum and one task) may lie between what they have received.
        self.queues, self.tenants = Fairness(2 * (QUANTUM + COST)), Fairness(2 * (QUANTUM + COST))
        self.told: set[str] = set()
        self.paused: set[str] = set()
        self.lanes: dict[str, str] = {}
        self.seen = self.look()

    def do(self, step: Any) -> Any:
        """Run one step of somebody."""
        self.now = None
        return self.loop.run(step)

    def note(self, what: str, happened: bool = True) -> None:
        """Note that a run has met what it must meet."""
        assert what in SOMETIMES
        if happened:
            self.met.add(what)

    def look(self) -> Snapshot:
        """Read everything, if anything was done since the last look."""
        if self.now is None:
            self.now = self.loop.run(Snapshot.read(self.bench.queue, self.bench.clients.commands))
        return self.now

    @invariant()
    def look_around(self) -> None:
        """After every step."""
        now = self.look()
        faults = now.faults(self.open, self.bench.time.ms)
        faults += self.queues.unfair(set(now.scheduled()), tenant_of)
        faults += self.tenants.unfair(set(now.scheduled_tenants()), lambda _: "")
        assert not faults, faults
        full = [
            meta for meta in now.hashes.values() if "limit" in meta and meta["limit"] == meta.get("inflight") == "2"
        ]
        self.note("a queue was at its limit", full != [])
        metas = [meta for key, meta in now.hashes.items() if ":meta:" in key]
        self.note("a queue backed off for its failures", any("probing" in meta and "until" in meta for meta in metas))
        self.note("a queue waited for its rate", any("rate" in meta and "until" in meta for meta in metas))
        limits = [meta for key, meta in now.hashes.items() if key.startswith("tenant:limits:")]
        self.note("a tenant waited for its rate", any("until" in meta for meta in limits))
        entered = now.scheduled().keys() - self.seen.scheduled().keys()
        for lane, name in entered:
            self.note("an object went on in another lane", self.lanes.setdefault(name, lane) != lane)
            self.lanes[name] = lane
            clock = now.hashes.get(f"tenant:meta:{lane}:{tenant_of(name)}", {})
            credit = float(clock.get("v", 0)) - now.scheduled()[lane, name]
            assert credit <= self.queues.refunded(lane, name), f"{name} has saved up credit"
        self.told |= {f"wake:{lane}" for lane, _ in entered}
        assert self.told <= set(now.lists), "somebody was not told that there is something to do"
        self.told.clear()
        self.seen = now

    def picked(self, some: Any, pick: int, count: int = 1) -> list[UUID]:
        """Choose some of the tasks."""
        ids = list(some)
        start = pick % len(ids)
        return ids[start : start + count]

    def unread(self, lane: str = "") -> bool:
        """Whether something lies in a stream that nobody has fetched: an empty read would take a while."""
        return any(
            self.seen.state(task_id) == "streamed" and task_id not in self.hands and lane in {"", placement.task.lane}
            for task_id, placement in self.open.items()
        )

    def drop(self, task_id: UUID) -> tuple[UUID, int]:
        """Forget a delivery in hand; its owner may still speak of it."""
        delivery = task_id, self.hands.pop(task_id)[1]
        self.stale.append(delivery)
        return delivery

    def check_key(
        self,
        before: dict[tuple[str, str], float],
        after: dict[tuple[str, str], float],
        lane: str,
        name: str,
        cost: float,
        group_of: Callable[[str], str],
    ) -> None:
        """Who was served has paid for it, and is at most a turn ahead of whoever waits."""
        if (lane, name) in before and (lane, name) in after:
            assert after[lane, name] == before[lane, name] + cost
            others = [key for (at, other), key in after.items() if at == lane and group_of(other) == group_of(name)]
            assert after[lane, name] - min(others) <= QUANTUM + COST, f"{name} was served too early: {after}"


def entitlement_of(kind: str, tenant: str, number: int) -> Entitlement:
    """Return what a queue may have: second devices two in flight, first devices of b little, and b not too much."""
    slow = kind == "mac" and tenant == "b" and number == 1
    return Entitlement(
        limit=2 if kind == "mac" and number == 2 else 0,
        rate=0.2 if slow else 0.0,
        burst=2 if slow else 0,
        tenant_rate=0.5 if tenant == "b" else 0.0,
        tenant_burst=4 if tenant == "b" else 0,
    )


async def on_empty_redis(settings: Settings) -> Bench:
    """Return an opened queue without anything that the run before left."""
    clients = RedisClients(settings.redis, name="test")
    await clients.commands.flushall()
    await clients.close()
    return await Bench.opened(settings)


def tenant_of(queue: str) -> str:
    """Return the tenant of a queue."""
    return queue.split(":")[1]
