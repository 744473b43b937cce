"""Redis holds what nothing of ours has written: it is contained, seen, and healed from the ledger.

Bug reports 11, 15, 24 and 92 are of this kind: what cannot be worked on must not stay for ever, nor take others along.
"""

from __future__ import annotations

import contextlib

import pytest

from chaos.snapshot import Snapshot
from detectsched.db.accept import accept
from detectsched.db.connection import Ledger
from detectsched.db.transitions import cancel
from detectsched.dispatcher.placing import placement_of
from detectsched.dispatcher.rebuilder import Rebuilder
from detectsched.dispatcher.reconciler import Reconciler
from detectsched.dispatcher.settler import Settler
from detectsched.errors import StoreUnavailable
from detectsched.queueing.queue import Placement
from detectsched.settings import Settings
from detectsched.task import DEFAULT_TENANT
from tests.support.actors import Bench, new_text


class Damaged:
    """A dispatcher's loops, turned by hand, and three tasks of a device that wait."""

    def __init__(self, bench: Bench, ledger: Ledger, settings: Settings) -> None:
        self.bench, self.ledger, self.settings = bench, ledger, settings
        self.redis = bench.clients.commands
        self.rebuilder = Rebuilder(bench.queue, ledger, settings)
        self.reconciler = Reconciler(bench.queue, ledger, settings.scheduler, settings.lanes, patience_seconds=0.0)
        self.placements: list[Placement] = []

    async def fill(self) -> None:
        """Accept and queue."""
        rows = await accept(self.ledger, [new_text(1) for _ in range(4)])
        self.bench.time.ms = rows[0].task.created_ms
        self.placements = [placement_of(row, self.settings.scheduler, now_ms=self.bench.time.ms) for row in rows]
        await self.bench.queue.scripts.enqueue(self.placements)

    def named(self, name: str) -> str:
        """Return a key's full name."""
        return self.bench.queue.keys.named(name)

    async def heal(self) -> None:
        """Turn the loops until nothing is to be done; what says "away" is said once more, as a loop does."""
        for _ in range(6):
            for turn in (self.reconciler.run_once, self.rebuilder.run_once):
                try:
                    await turn()
                except StoreUnavailable:
                    continue

    async def work(self) -> None:
        """Do what processes do all day: look, queue, hand out, complete."""
        queue, scripts = self.bench.queue, self.bench.queue.scripts
        await scripts.enqueue(self.placements)
        await queue.level(self.settings.lanes)
        await queue.paused()
        await queue.registry.workers()
        await queue.settlements(10)
        if not self.bench.owners:
            await self.bench.serve(1)
        served = next(iter(self.bench.owners))
        # Persist, then acknowledge.
        async with self.ledger.connection() as connection:
            await connection.execute("UPDATE task SET state = 'succeeded', finished_at = now() WHERE id = $1", served)
        self.placements = [one for one in self.placements if one.task.id != served]
        await self.bench.complete(served)
        await scripts.admit([("default:02:00:00:00:00:01", 1)], max_total=100, max_subject=100, release=1)

    async def faults(self) -> list[str]:
        """Return what is wrong with what Redis holds."""
        now = await Snapshot.read(self.bench.queue, self.redis)
        return now.faults({one.task.id: one for one in self.placements}, self.bench.time.ms)


@pytest.fixture
async def damaged(bench: Bench, ledger: Ledger, settings: Settings) -> Damaged:
    """Give a filled queue."""
    made = Damaged(bench, ledger, settings)
    await made.fill()
    assert await made.faults() == []
    return made


@pytest.mark.parametrize(
    "name",
    [
        "global_pending", "tenant:pending", "mac:pending", "scheduler", "deferred", "stream:text", "mac:schedule:text",
        "mac:queue:default:text:02:00:00:00:00:01", "mac:meta:default:text:02:00:00:00:00:01", "settlement", "workers",
        "generation", "paused", "wake:text", "overloaded_macs", "tenant:limits:default", "mac:clock", "lane:completed",
    ],
)  # fmt: skip
async def test_a_key_of_another_type_is_healed(damaged: Damaged, name: str) -> None:
    """Whatever stands where one of our keys should stand; the tasks are served afterwards."""
    key = damaged.named(name)
    await damaged.redis.delete(key)
    # A type that none of our keys but the streams has, and for those a list.
    await (damaged.redis.rpush(key, "x") if name == "stream:text" else damaged.redis.xadd(key, {"x": "x"}))
    for use in (damaged.work, damaged.heal, damaged.work, damaged.heal):
        with contextlib.suppress(StoreUnavailable):
            await use()
    await damaged.work()
    assert await damaged.faults() == []


async def test_a_task_that_lost_its_facts_is_healed(damaged: Damaged) -> None:
    """A hash without most of its fields."""
    await damaged.redis.hdel(damaged.bench.queue.keys.task(damaged.placements[0].task.id), "cost", "queue", "expires")
    with pytest.raises(StoreUnavailable):
        await damaged.bench.serve(5)
    await damaged.heal()
    assert len(await damaged.bench.serve(5)) == 4
    assert await damaged.faults() == []


@pytest.mark.parametrize("fields", [{"x": "y"}, {"t": "no id", "d": "1"}, {"t": b"\xff", "d": b"\xfe"}, {"t": ""}])
async def test_a_poison_entry_harms_nobody(damaged: Damaged, fields: dict[str, str]) -> None:
    """A runner skips it; the reaper removes it after a lease."""
    await damaged.redis.xadd(damaged.bench.queue.keys.stream("text"), fields)
    assert len(await damaged.bench.serve(5)) == 4
    calls = damaged.bench.queue.scripts
    assert len(await calls.reclaim("text", "reaper", lease_seconds=0, limit=10)) == 4
    assert await damaged.faults() == []


@pytest.mark.parametrize("element", [b"nonsense", b"expired|no id", b"\xff|\xfe", b"dead|"])
async def test_a_settlement_that_is_none_is_emptied(damaged: Damaged, element: bytes) -> None:
    """The settler goes on, and ends."""
    await damaged.redis.rpush(damaged.named("settlement"), element)
    assert await Settler(damaged.bench.queue, damaged.ledger, damaged.settings.scheduler).run_once() == 1
    assert await damaged.faults() == []


async def repairs(damaged: Damaged) -> dict[str, int]:
    """Return what was counted as repaired."""
    level = await damaged.bench.queue.level(damaged.settings.lanes)
    return {name.partition(":")[2]: count for name, count in level.items() if name.startswith("repaired:")}


async def test_a_task_that_ended_unnoticed_leaves_the_queue(damaged: Damaged) -> None:
    """Its tenant cancelled it, and the API died before it could say so."""
    task_id = damaged.placements.pop().task.id
    await cancel(damaged.ledger, DEFAULT_TENANT, task_id)
    assert await damaged.reconciler.run_once() == 1
    assert await repairs(damaged) == {"ended": 1}
    assert await damaged.faults() == []


async def test_a_place_in_flight_that_nobody_has_is_freed(damaged: Damaged) -> None:
    """A counter without a holder would keep an object waiting for ever."""
    await damaged.redis.hset(damaged.named("mac:meta:default:text:02:00:00:00:00:01"), "inflight", 7)
    assert await damaged.reconciler.run_once() == 1
    assert await repairs(damaged) == {"places": 1}
    assert await damaged.faults() == []


@pytest.mark.parametrize("counter", ["global_pending", "tenant:pending", "mac:pending"])
async def test_counters_that_disagree_are_made_anew(damaged: Damaged, counter: str) -> None:
    """A drifted counter would refuse requests for ever, or none."""
    if counter == "global_pending":
        await damaged.redis.incrby(damaged.named(counter), 5)
    else:
        await damaged.redis.hset(damaged.named(counter), "default:ghost", -3)
    await damaged.heal()
    assert await repairs(damaged) == {"counters": 1}
    assert await damaged.faults() == []


async def test_a_task_whose_entry_is_gone_is_returned(damaged: Damaged) -> None:
    """The entry was removed by nobody of ours: no reaper would ever find it."""
    await damaged.bench.serve(1)
    stream = damaged.bench.queue.keys.stream("text")
    for entry, _ in await damaged.redis.xrange(stream):
        await damaged.redis.xack(stream, "runners", entry)
        await damaged.redis.xdel(stream, entry)
    damaged.bench.owners.clear()
    await damaged.heal()
    assert await repairs(damaged) == {"adrift": 1}
    assert len(await damaged.bench.serve(5)) == 4
    assert await damaged.faults() == []


async def test_nothing_is_repaired_where_nothing_is_wrong(damaged: Damaged) -> None:
    """With tasks that wait, that run, that are delayed, and none."""
    for _ in range(3):
        assert await damaged.reconciler.run_once() == 0
        await damaged.bench.serve(1)
    while damaged.placements:
        await damaged.work()
        assert await damaged.reconciler.run_once() == 0
    assert await repairs(damaged) == {}
