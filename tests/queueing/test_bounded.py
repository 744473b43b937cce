"""No script works on more than a few tasks, however many it is given: the server answers nobody else meanwhile."""

from __future__ import annotations

from detectsched.queueing.queue import Completed, Completion, Enqueued, GivenBack, Placement, Released
from tests.support.actors import Bench, device_task

MANY = 230


async def calls(bench: Bench) -> int:
    """Return how many scripts the server has run so far."""
    stats = await bench.clients.commands.info("commandstats")
    return int(stats.get("cmdstat_evalsha", {"calls": 0})["calls"])


async def test_many_tasks_are_many_scripts(bench: Bench) -> None:
    """Each of at most fifty tasks; the answers come in the order of the tasks."""
    tasks = [device_task(number % 7, bench.time) for number in range(MANY)]
    before = await calls(bench)
    assert await bench.queue.scripts.enqueue([Placement(task) for task in tasks]) == [Enqueued.QUEUED] * MANY
    assert await calls(bench) - before >= MANY / 50
    twice = [tasks[0], *(device_task(1, bench.time) for _ in range(60)), tasks[1]]
    answers = await bench.queue.scripts.enqueue([Placement(task) for task in twice])
    assert answers == [Enqueued.DUPLICATE, *[Enqueued.QUEUED] * 60, Enqueued.DUPLICATE]
    served: list[object] = []
    while found := await bench.serve(100):
        served += found
    assert len(served) == MANY + 60
    before = await calls(bench)
    back, done = tasks[: MANY // 2], tasks[MANY // 2 :]
    given = [GivenBack(task.id, bench.owners.pop(task.id)) for task in back]
    assert await bench.queue.scripts.release(given) == [Released.RELEASED] * len(back)
    completions = [Completion(task.id, bench.owners.pop(task.id)) for task in done]
    assert await bench.queue.scripts.complete(completions) == [Completed.DONE] * len(done)
    assert await calls(bench) - before >= MANY / 50
