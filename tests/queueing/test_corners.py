"""Where two rules meet: each of these was found by the queue machine, or by reading, and is told here by itself."""

from __future__ import annotations

from dataclasses import replace

from chaos.snapshot import Snapshot
from detectsched.queueing.queue import Placement, concerned, paused_tenant
from detectsched.task import Entitlement
from tests.support.actors import Bench, device_task, object_task

LANES = ("ocr", "text")


async def look(bench: Bench) -> Snapshot:
    """Read everything."""
    return await Snapshot.read(bench.queue, bench.clients.commands)


async def test_what_is_not_ready_is_not_served_behind_an_expired_head(bench: Bench) -> None:
    """The head of an object expires in the very turn that would serve it; its successor may not start yet."""
    head = replace(object_task("door", bench.time), expires_ms=bench.time.ms + 1000)
    later = replace(object_task("door", bench.time), not_before_ms=bench.time.ms + 60_000)
    await bench.enqueue(head, later)
    bench.time.advance(2)
    assert await bench.serve(5) == []
    bench.time.advance(60)
    await bench.queue.scripts.promote(lease_seconds=60, limit=10, lanes=LANES)
    assert await bench.serve(5) == [later.id]


async def test_giving_up_on_a_head_wakes_the_lane_of_the_next(bench: Bench) -> None:
    """A lane without runners loses the head of an object; what comes next in another lane is known there at once."""
    await bench.enqueue(object_task("door", bench.time, lane="ocr"), object_task("door", bench.time))
    done = await bench.queue.scripts.defer("ocr", policy="dead_letter", max_defers=0, limit=10)
    assert done.given_up == 1
    assert await bench.queue.wait_for_work("text", timeout_seconds=1.0)


async def test_only_what_waits_is_given_up(bench: Bench) -> None:
    """More tasks were cancelled in a row than are dropped at once: they are not given up on, and not counted twice."""
    tasks = [device_task(1, bench.time) for _ in range(160)]
    await bench.enqueue(*tasks)
    # The head last: until then the others lie behind a task that waits.
    await bench.queue.scripts.withdraw([task.id for task in tasks[1:150]])
    await bench.queue.scripts.withdraw([tasks[0].id])
    done = await bench.queue.scripts.defer("text", policy="dead_letter", max_defers=0, limit=1000)
    assert not done.more
    given_up = [element.decode() for element in await bench.queue.settlements(1000)]
    assert given_up == [f"dead|{task.id}" for task in tasks[150:]]
    placements = {task.id: Placement(task) for task in tasks[150:]}
    assert (await look(bench)).faults(placements, bench.time.ms) == []


async def test_a_queue_that_is_full_after_a_rebuild_is_not_scheduled(bench: Bench) -> None:
    """A waiting task is queued first, then one that is held for its runner uses up the only place in flight."""
    waiting, running = device_task(1, bench.time), device_task(1, bench.time)
    held = replace(running, not_before_ms=bench.time.ms + 60_000, delivery=1)
    one = Entitlement(limit=1)
    placements = [Placement(waiting, one), Placement(held, one, held_by=bench.consumer)]
    await bench.queue.scripts.enqueue(placements)
    assert (await look(bench)).faults({each.task.id: each for each in placements}, bench.time.ms) == []


async def test_a_paused_tenant_is_remembered(bench: Bench) -> None:
    """A pause longer than anything is remembered takes neither a tenant's weight nor the places of its queues."""
    first = [device_task(1, bench.time, tenant="paused") for _ in range(30)]
    others = [device_task(2, bench.time, tenant="other") for _ in range(30)]
    await bench.enqueue(*first, tenant_weight=2.0)
    await bench.enqueue(*others)
    for _ in range(15):
        await bench.complete(*await bench.serve(1))
    name = paused_tenant("paused")
    lanes, queues = concerned(name, LANES)
    await bench.queue.scripts.pause(name, paused=True, lanes=lanes, queues=queues)
    for key in (await look(bench)).mortal:
        await bench.clients.commands.delete(bench.queue.keys.named(key))
    await bench.queue.scripts.pause(name, paused=False, lanes=lanes, queues=queues)
    assert (await look(bench)).hashes["tenant:meta:text:paused"]["weight"] == "2"
    placements = {task.id: Placement(task) for task in (*first, *others) if (await look(bench)).state(task.id)}
    assert (await look(bench)).faults(placements, bench.time.ms) == []
