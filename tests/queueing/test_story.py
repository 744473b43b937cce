"""The life of a task in the queue, in order."""

from __future__ import annotations

from detectsched.queueing.queue import Completed, Completion, GivenBack, Released, Renewed
from tests.support.actors import Bench, device_task, object_task


async def test_a_task_is_queued_served_and_forgotten(bench: Bench) -> None:
    """A task goes through the queue and leaves nothing that counts behind."""
    task = device_task(1, bench.time)
    await bench.enqueue(task)
    assert (await bench.queue.level(("text",)))["total_pending"] == 1
    assert await bench.serve(1) == [task.id]
    assert await bench.queue.level(("text",)) == {
        "total_pending": 0,
        "mac_count": 0,
        "completed:text": 0,
        "outstanding:text": 1,
    }
    assert await bench.complete(task.id) == ["DONE"]
    assert await bench.queue.level(("text",)) == {
        "total_pending": 0,
        "mac_count": 0,
        "completed:text": 1,
        "outstanding:text": 0,
    }
    assert await bench.queue.unknown([task.id]) == [task.id]


async def test_turns_alternate_between_devices(bench: Bench) -> None:
    """A flooding device gets one turn, then the quiet one is next."""
    flood = [device_task(1, bench.time) for _ in range(30)]
    await bench.enqueue(*flood)
    assert await bench.serve(10) == [task.id for task in flood[:10]]
    quiet = device_task(2, bench.time)
    await bench.enqueue(quiet)
    assert await bench.serve(11) == [quiet.id, *(task.id for task in flood[10:20])]


async def test_an_object_runs_one_task_at_a_time_over_all_lanes(bench: Bench) -> None:
    """The next task of an object is served only when the one before is complete, whatever its lane."""
    first, second = object_task("door", bench.time, lane="ocr"), object_task("door", bench.time)
    await bench.enqueue(first, second)
    assert await bench.serve(5) == []
    assert await bench.serve(5, lane="ocr") == [first.id]
    assert await bench.serve(5) == []
    await bench.complete(first.id)
    assert await bench.serve(5) == [second.id]


async def test_given_back_returns_to_its_place(bench: Bench) -> None:
    """Given-back tasks come again by sequence, not by the order in which they were given back."""
    tasks = [device_task(1, bench.time) for _ in range(4)]
    await bench.enqueue(*tasks)
    assert await bench.serve(3) == [task.id for task in tasks[:3]]
    back = [GivenBack(tasks[i].id, bench.owners.pop(tasks[i].id), refund=True) for i in (1, 0, 2)]
    assert await bench.queue.scripts.release(back) == [Released.RELEASED] * 3
    assert await bench.queue.scripts.release(back) == [Released.STALE] * 3
    assert await bench.serve(10) == [task.id for task in tasks]


async def test_a_stale_owner_changes_nothing(bench: Bench) -> None:
    """Under an older delivery nothing can be renewed, completed or released."""
    task = device_task(1, bench.time)
    await bench.enqueue(task)
    await bench.serve(1)
    old = bench.owners.pop(task.id)
    await bench.queue.scripts.release([GivenBack(task.id, old)])
    await bench.serve(1)
    renew = bench.queue.scripts.renew
    assert await renew(bench.consumer, [(task.id, old)], lease_seconds=60) == [Renewed.STALE]
    assert await renew("other:1:boot", [(task.id, old + 1)], lease_seconds=60) == [Renewed.STALE]
    assert await renew(bench.consumer, [(task.id, old + 1)], lease_seconds=60) == [Renewed.RENEWED]
    assert await bench.queue.scripts.complete([Completion(task.id, old)]) == [Completed.STALE]
    assert await bench.complete(task.id) == ["DONE"]
