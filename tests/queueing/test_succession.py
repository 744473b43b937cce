"""A runner takes the next task with the completion of the last: what the dispatcher would send it, and nothing else."""

from __future__ import annotations

from uuid import UUID

from detectsched.queueing.queue import Completed, Completion, Result, Taker, concerned, paused_lane
from detectsched.task import Delivery
from tests.support.actors import Bench, device_task, object_task


async def succeed(bench: Bench, task_id: UUID, *, takes: bool = True) -> Delivery | None:
    """Complete a task that was served, and return what came in its place."""
    taker = Taker(bench.consumer, "text") if takes else None
    done = Completion(task_id, bench.owners.pop(task_id), Result.GOOD, taker=taker)
    [succession] = await bench.queue.scripts.succeed([done])
    assert succession.completed is Completed.DONE
    return succession.next


async def test_the_next_of_an_object_comes_with_the_end_of_the_last(bench: Bench) -> None:
    """In the same answer, under a number of its own, and in this runner's name."""
    first, second = (object_task("door", bench.time) for _ in range(2))
    await bench.enqueue(first, second)
    assert await bench.serve(5) == [first.id]
    taken = await succeed(bench, first.id)
    assert taken is not None
    assert (taken.task_id, taken.number, taken.lane) == (second.id, 1, "text")
    assert await bench.queue.read_own("text", bench.consumer) == [taken]


async def test_whoever_takes_nothing_is_given_nothing(bench: Bench) -> None:
    """The task stays where the dispatcher finds it."""
    first, second = (object_task("door", bench.time) for _ in range(2))
    await bench.enqueue(first, second)
    assert await bench.serve(5) == [first.id]
    assert await succeed(bench, first.id, takes=False) is None
    assert await bench.serve(5) == [second.id]


async def test_another_whose_turn_has_come_goes_first(bench: Bench) -> None:
    """An object that was just served does not go on before a device that has had nothing."""
    first, second = (object_task("door", bench.time) for _ in range(2))
    waiting = device_task(1, bench.time)
    await bench.enqueue(first, second)
    assert await bench.serve(1) == [first.id]
    await bench.enqueue(waiting)
    taken = await succeed(bench, first.id)
    assert taken is not None
    assert taken.task_id == waiting.id


async def test_a_paused_lane_gives_nothing(bench: Bench) -> None:
    """Not to the runner that has a place free either."""
    first, second = (object_task("door", bench.time) for _ in range(2))
    await bench.enqueue(first, second)
    assert await bench.serve(5) == [first.id]
    lanes, queues = concerned(paused_lane("text"), ("ocr", "text"))
    await bench.queue.scripts.pause(paused_lane("text"), paused=True, lanes=lanes, queues=queues)
    assert await succeed(bench, first.id) is None
