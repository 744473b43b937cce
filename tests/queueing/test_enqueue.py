"""Many tasks in one call, in any order: each comes to its place, once, and what belongs to a queue is done once."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from chaos.snapshot import Snapshot
from detectsched.errors import GenerationLost
from detectsched.queueing.queue import Enqueued, Placement, paused_subject
from detectsched.task import Entitlement, QueuedTask
from tests.support.actors import Bench, device_task, object_task


def mixed(bench: Bench, count: int) -> list[QueuedTask]:
    """Return tasks of three devices and an object, by turns."""
    return [
        object_task("door", bench.time) if number % 4 == 3 else device_task(number % 4, bench.time)
        for number in range(count)
    ]


async def check(bench: Bench, tasks: list[QueuedTask]) -> None:
    """Look whether exactly these wait, each in its place."""
    found = await Snapshot.read(bench.queue, bench.clients.commands)
    assert found.faults({task.id: Placement(task) for task in tasks}, bench.time.ms) == []
    for queue in {task.queue for task in tasks}:
        own = sorted((task for task in tasks if task.queue == queue), key=lambda task: task.sequence)
        assert found.waiting(str(queue)) == [task.id for task in own]


@pytest.mark.parametrize("seed", range(5))
async def test_places_are_by_sequence_whatever_comes_first(bench: Bench, seed: int) -> None:
    """In one call and over several, behind the tail and before it, in runs of one queue and by turns."""
    tasks = mixed(bench, 120)
    shuffled = random.Random(seed).sample(tasks, len(tasks))  # noqa: S311 - an order, no secret
    shuffled[40:80] = sorted(shuffled[40:80], key=lambda task: (str(task.queue), task.sequence))
    answers = await bench.queue.scripts.enqueue([Placement(task) for task in shuffled])
    assert answers == [Enqueued.QUEUED] * len(tasks)
    await check(bench, tasks)


async def test_a_task_that_comes_twice_is_queued_once(bench: Bench) -> None:
    """Beside itself, in another run of the call, and in another call; the answers stand where the tasks stood."""
    one, two, other = device_task(1, bench.time), device_task(1, bench.time), device_task(2, bench.time)
    answers = await bench.queue.scripts.enqueue([Placement(task) for task in (one, one, other, two, one)])
    known, new = Enqueued.DUPLICATE, Enqueued.QUEUED
    assert answers == [new, known, new, new, known]
    assert await bench.queue.scripts.enqueue([Placement(task) for task in (two, other)]) == [known, known]
    await check(bench, [one, two, other])


async def test_any_number_is_queued_a_few_calls_at_a_time(bench: Bench) -> None:
    """Taken from an iterator by two senders: which is first does not matter, not even within a queue."""
    tasks = mixed(bench, 730)
    by_queue = sorted(tasks, key=lambda task: str(task.queue))
    await bench.queue.scripts.enqueue_all(Placement(task) for task in by_queue)
    await check(bench, tasks)


async def test_a_sender_that_fails_ends_the_others(bench: Bench) -> None:
    """Nothing more is asked for when the gate is closed."""
    await bench.clients.commands.delete(bench.queue.keys.generation)
    left = (Placement(device_task(1, bench.time)) for _ in range(1000))
    with pytest.raises(ExceptionGroup) as failed:
        await bench.queue.scripts.enqueue_all(left)
    assert failed.group_contains(GenerationLost)
    assert len(list(left)) >= 900


async def test_neighbours_are_told_apart(bench: Bench) -> None:
    """Tasks of one queue in two lanes, and tasks with other entitlements, are no run of one another."""
    first = object_task("door", bench.time, lane="ocr")
    second = replace(object_task("door", bench.time), cost=3.5)
    third = device_task(1, bench.time)
    placements = [Placement(first), Placement(second), Placement(third, Entitlement(weight=2.0, limit=7))]
    await bench.queue.scripts.enqueue(placements)
    found = await Snapshot.read(bench.queue, bench.clients.commands)
    assert [found.task(task.id)["lane"] for task in (first, second, third)] == ["ocr", "text", "text"]
    assert found.task(second.id)["cost"] == "3.5"
    assert found.meta(str(third.queue)).items() >= {("weight", "2"), ("limit", "7")}
    assert not {"weight", "limit"} & found.meta(str(first.queue)).keys()


async def test_what_waits_in_a_paused_queue_keeps_its_meta(bench: Bench) -> None:
    """An idle queue is about to be forgotten; a task comes that may not start, and what is known of it stays."""
    done, waiting = device_task(1, bench.time), device_task(1, bench.time)
    await bench.enqueue(done)
    await bench.serve(1)
    await bench.complete(done.id)
    meta = bench.queue.keys.named(f"mac:meta:{str(done.queue).removeprefix('mac:')}")
    assert await bench.clients.commands.ttl(meta) > 0
    await bench.queue.scripts.pause(paused_subject(done.queue), paused=True, lanes=["text"], queues=[done.queue])
    await bench.enqueue(waiting)
    assert await bench.serve(1) == []
    assert await bench.clients.commands.ttl(meta) == -1
