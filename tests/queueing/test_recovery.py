"""What comes back: delays, leases, cancelled and expired tasks, lost data."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from detectsched.errors import GenerationLost
from detectsched.queueing.queue import Completion, Enqueued, GivenBack, Placement, Queue, Renewed, Verdict, Withdrawn
from detectsched.settings import Settings
from tests.support.actors import DEFAULT_TURNS, Bench, device_task, object_task

LANES = ("ocr", "text")


async def level(bench: Bench) -> tuple[int, int]:
    """Return what waits and what is outstanding in the text lane."""
    counts = await bench.queue.level(("text",))
    return counts["total_pending"], counts["outstanding:text"]


async def release(bench: Bench, task_id: UUID, delay: float) -> None:
    """Give a served task back after a delay."""
    await bench.queue.scripts.release([GivenBack(task_id, bench.owners.pop(task_id), delay)])


async def test_a_delayed_device_task_lets_others_pass(bench: Bench) -> None:
    """A retry waits out its delay by itself; when due it is served again."""
    first, second = device_task(1, bench.time), device_task(1, bench.time)
    await bench.enqueue(first, second)
    await bench.serve(1)
    await release(bench, first.id, 30)
    assert await bench.serve(5) == [second.id]
    promoted = await bench.queue.scripts.promote(lease_seconds=60, limit=10, lanes=LANES)
    assert (promoted.count, promoted.next_due_seconds) == (0, 30.0)
    assert await level(bench) == (1, 1)
    bench.time.advance(30)
    assert (await bench.queue.scripts.promote(lease_seconds=60, limit=10, lanes=LANES)).count == 1
    assert await bench.serve(5) == [first.id]


async def test_a_delayed_object_task_keeps_its_successors_waiting(bench: Bench) -> None:
    """Order is promised: nothing of an object runs before its failed head is tried again."""
    first, second = object_task("door", bench.time), object_task("door", bench.time)
    await bench.enqueue(first, second)
    await bench.serve(1)
    await release(bench, first.id, 30)
    assert await bench.serve(5) == []
    bench.time.advance(30)
    await bench.queue.scripts.promote(lease_seconds=60, limit=10, lanes=LANES)
    assert await bench.serve(5) == [first.id]
    await bench.complete(first.id)
    assert await bench.serve(5) == [second.id]


async def test_a_cancelled_head_of_an_object_keeps_nobody_waiting(bench: Bench) -> None:
    """Its back-off ends with it, whether it was cancelled in its back-off or while it ran."""
    tasks = [object_task("door", bench.time) for _ in range(3)]
    await bench.enqueue(*tasks)
    await bench.serve(1)
    await release(bench, tasks[0].id, 600)
    assert await bench.queue.scripts.withdraw([tasks[1].id]) == [Withdrawn.WITHDRAWN]
    assert await bench.serve(1) == []
    assert await bench.queue.scripts.withdraw([tasks[0].id]) == [Withdrawn.WITHDRAWN]
    assert await bench.serve(1) == [tasks[2].id]
    assert await bench.queue.scripts.withdraw([tasks[2].id]) == [Withdrawn.RUNNING]
    await release(bench, tasks[2].id, 600)
    # Its next runner is told by PostgreSQL that it has ended.
    assert await bench.serve(1) == [tasks[2].id]


async def test_a_silent_owner_loses_its_delivery(bench: Bench) -> None:
    """After the lease the reaper holds the delivery, and the old owner's renewal is refused."""
    task = device_task(1, bench.time)
    await bench.enqueue(task)
    await bench.serve(1)
    assert await bench.queue.scripts.reclaim("text", "reaper:a", lease_seconds=60, limit=10) == []
    [lost] = await bench.queue.scripts.reclaim("text", "reaper:a", lease_seconds=0, limit=10)
    assert (lost.task_id, lost.number) == (task.id, bench.owners[task.id])
    held = [(task.id, lost.number)]
    assert await bench.queue.scripts.renew(bench.consumer, held, lease_seconds=60) == [Renewed.STALE]
    await release(bench, task.id, 0)
    assert await bench.serve(1) == [task.id]


async def test_an_overdue_delivery_is_found_behind_thousands_that_are_renewed(bench: Bench) -> None:
    """However many older deliveries are alive, one sweep finds the one whose owner fell silent."""
    tasks = [device_task(1, bench.time) for _ in range(2500)]
    await bench.enqueue(*tasks)
    while len(bench.owners) < len(tasks):
        await bench.serve(200)
    stream, last = bench.queue.keys.stream("text"), tasks[-1].id
    [(entry, _)] = await bench.clients.commands.xrevrange(stream, count=1)
    await bench.clients.commands.xclaim(stream, "runners", "dead:1:a", 0, [entry], idle=61_000, justid=True)
    [lost] = await bench.queue.scripts.reclaim("text", "reaper:a", lease_seconds=60, limit=100)
    assert (lost.task_id, lost.number) == (last, 1)
    assert len(await bench.queue.scripts.reclaim("text", "reaper:a", lease_seconds=0, limit=100)) == 100


async def test_only_consumers_that_hold_nothing_are_removed(bench: Bench) -> None:
    """Each start of a runner makes a consumer; one that is gone is forgotten, unless deliveries stand in its name."""
    first, second = device_task(1, bench.time), device_task(1, bench.time)
    await bench.enqueue(first, second)
    assert await bench.serve(1) == [first.id]
    bench.consumer = "host:1:second"
    assert await bench.serve(1) == [second.id]
    await bench.complete(second.id)
    assert await bench.queue.scripts.prune("text", idle_seconds=60) == 0
    assert await bench.queue.scripts.prune("text", idle_seconds=0) == 1
    assert await bench.queue.scripts.prune("text", idle_seconds=0) == 0
    [lost] = await bench.queue.scripts.reclaim("text", "reaper:a", lease_seconds=0, limit=10)
    assert lost.task_id == first.id


async def test_withdrawn_tasks_are_skipped(bench: Bench) -> None:
    """What was withdrawn is never served, wherever in the queue it stood, and no counter counts it."""
    tasks = [device_task(1, bench.time) for _ in range(5)]
    await bench.enqueue(*tasks)
    gone = [tasks[0].id, tasks[1].id, tasks[3].id]
    assert await bench.queue.scripts.withdraw(gone) == [Withdrawn.WITHDRAWN] * 3
    assert await bench.queue.scripts.withdraw(gone) == [Withdrawn.GONE] * 3
    assert await level(bench) == (2, 0)
    assert await bench.serve(5) == [tasks[2].id, tasks[4].id]
    assert await bench.queue.scripts.withdraw([tasks[2].id]) == [Withdrawn.RUNNING]
    held = [(tasks[2].id, bench.owners[tasks[2].id])]
    assert await bench.queue.scripts.renew(bench.consumer, held, lease_seconds=60) == [Renewed.CANCEL]


async def test_expired_tasks_are_settled_not_lost(bench: Bench) -> None:
    """An expired task moves to the settlement list, and leaves it only when PostgreSQL has it."""
    task, other = device_task(1, bench.time, ttl=10), device_task(1, bench.time)
    await bench.enqueue(task, other)
    bench.time.advance(11)
    assert await bench.serve(5) == [other.id]
    [element] = await bench.queue.settlements(10)
    assert element == f"expired|{task.id}".encode()
    assert await bench.queue.unknown([task.id]) == []
    assert await bench.queue.scripts.settle([element]) == 1
    assert await bench.queue.scripts.settle([element]) == 0
    assert await bench.queue.unknown([task.id]) == [task.id]


async def test_queueing_twice_is_queueing_once(bench: Bench) -> None:
    """A repeated enqueue changes nothing, whether the task waits or runs."""
    task = device_task(1, bench.time)
    placement = [Placement(task)]
    assert await bench.queue.scripts.enqueue(placement) == [Enqueued.QUEUED]
    assert await bench.queue.scripts.enqueue(placement) == [Enqueued.DUPLICATE]
    assert await bench.serve(5) == [task.id]
    assert await bench.queue.scripts.enqueue(placement) == [Enqueued.DUPLICATE]
    assert await level(bench) == (0, 1)


async def test_a_late_arrival_is_placed_by_sequence(bench: Bench) -> None:
    """A task committed earlier and queued later runs in the order of acceptance."""
    tasks = [object_task("door", bench.time) for _ in range(5)]
    await bench.enqueue(tasks[0], tasks[2], tasks[4])
    await bench.enqueue(tasks[3], tasks[1])
    served = []
    for _ in tasks:
        [task_id] = await bench.serve(1)
        served.append(task_id)
        await bench.complete(task_id)
    assert served == [task.id for task in tasks]


async def test_overload_is_judged_with_hysteresis(bench: Bench) -> None:
    """A device over its limit stays refused until its backlog has fallen; the others are not refused for it."""
    tasks = [device_task(1, bench.time) for _ in range(12)]
    await bench.enqueue(*tasks)
    mine, other = f"default:{tasks[0].mac}", "default:02:00:00:00:00:99"

    async def verdicts(total: int = 1000) -> list[Verdict]:
        admissions = await bench.queue.scripts.admit(
            [(mine, 1), (other, 1)], max_total=total, max_subject=10, release=8
        )
        return [admission.verdict for admission in admissions]

    assert await verdicts() == [Verdict.DEVICE, Verdict.OK]
    await bench.serve(2)
    assert await verdicts() == [Verdict.DEVICE, Verdict.OK]
    await bench.serve(2)
    assert await verdicts() == [Verdict.OK, Verdict.OK]
    assert await verdicts(total=7) == [Verdict.SYSTEM, Verdict.SYSTEM]


async def test_lost_data_closes_the_gate(bench: Bench, settings: Settings) -> None:
    """Without the generation, or under another server's, nothing is changed until somebody has rebuilt."""
    task = device_task(1, bench.time)
    await bench.enqueue(task)
    await bench.clients.commands.delete(bench.queue.keys.generation)
    for call in (
        bench.enqueue(device_task(1, bench.time)),
        bench.serve(1),
        bench.queue.scripts.complete([Completion(task.id, 1)]),
    ):
        with pytest.raises(GenerationLost):
            await call
    stranger = "0" * 32 + "@" + "f" * 40
    await bench.clients.commands.set(bench.queue.keys.generation, stranger)
    with pytest.raises(GenerationLost):
        await bench.serve(1)
    again = Queue(bench.clients, settings, now_ms=bench.time)
    assert await again.rebuild.is_needed(settings.lanes, check_policy=False)
    token = await again.rebuild.begin()
    assert token is not None
    assert await bench.queue.rebuild.begin() is None
    await again.rebuild.wipe(token, settings.lanes)
    await again.rebuilding(token).enqueue([Placement(task)])
    await again.rebuild.open(token)
    # The old queue joins the new life by itself.
    assert await bench.serve(1) == [task.id]


async def test_a_running_task_is_held_for_its_runner_after_a_rebuild(bench: Bench) -> None:
    """What ran when Redis lost its data keeps its object closed for one lease, and its owner may still complete it."""
    held, waiting = object_task("door", bench.time), object_task("door", bench.time)
    held = replace(held, delivery=3, not_before_ms=bench.time.ms + 60_000)
    await bench.queue.scripts.enqueue([Placement(held, held_by="runner:1:a"), Placement(waiting)])
    assert await bench.serve(5) == []
    renew = bench.queue.scripts.renew
    assert await renew("other:1:a", [(held.id, 3)], lease_seconds=60) == [Renewed.STALE]
    bench.time.advance(59)
    assert await renew("runner:1:a", [(held.id, 3)], lease_seconds=60) == [Renewed.RENEWED]
    bench.time.advance(59)
    assert (await bench.queue.scripts.promote(lease_seconds=60, limit=10, lanes=LANES)).held == ()
    bench.time.advance(2)
    [overdue] = (await bench.queue.scripts.promote(lease_seconds=60, limit=10, lanes=LANES)).held
    assert (overdue.task_id, overdue.number) == (held.id, 3)
    assert [word.value for word in await bench.queue.scripts.complete([Completion(held.id, 3)])] == ["DONE"]
    assert await bench.serve(5) == [waiting.id]


async def test_an_emptied_queue_leaves_only_what_expires(bench: Bench) -> None:
    """After its last task an idle queue costs nothing but a meta hash with a TTL."""
    task = device_task(7, bench.time)
    await bench.enqueue(task)
    await bench.serve(1)
    await bench.complete(task.id)
    redis, tag = bench.clients.commands, bench.queue.keys.tag
    names = [name.decode().removeprefix(tag) async for name in redis.scan_iter(match="*")]
    mine = [name for name in names if str(task.mac) in name or "tenant:meta" in name]
    assert sorted(mine) == [f"mac:meta:default:text:{task.mac}", "tenant:meta:text:default"]
    assert all([await redis.ttl(tag + name) > 0 for name in mine])


async def test_no_queue_is_rescored_by_time_passing(bench: Bench) -> None:
    """However long they wait, the keys of waiting queues stay as they are."""
    await bench.enqueue(*(device_task(number, bench.time) for number in range(5)))
    key = bench.queue.keys.named("mac:schedule:text:default")
    before = await bench.clients.commands.zrange(key, 0, -1, withscores=True)
    bench.time.advance(1000)
    await bench.queue.scripts.promote(lease_seconds=60, limit=10, lanes=LANES)
    await bench.queue.scripts.dispatch("text", capacity=0, live=[], turns=DEFAULT_TURNS)
    assert await bench.clients.commands.zrange(key, 0, -1, withscores=True) == before
    assert len(before) == 5
