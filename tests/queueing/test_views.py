"""What can be read of the schedule: why a task waits, and how queues stand."""

from __future__ import annotations

from dataclasses import replace

from detectsched.queueing.queue import Completion, GivenBack, Placement, Result, Standing
from detectsched.task import Entitlement, QueueId, new_task_id
from tests.support.actors import Bench, device_task, object_task

LANES = ("ocr", "text")


async def standing(bench: Bench, task_id: object) -> Standing:
    """Return how a task stands."""
    identity = next(iter([task_id]))
    found = await bench.queue.views.standing(identity, now=str(bench.time.ms))  # type: ignore[arg-type]
    assert found is not None
    return found


async def test_places_in_the_queue_and_in_the_round(bench: Bench) -> None:
    """A task knows how many are ahead in its queue, and its queue's and tenant's places in the round."""
    first = [device_task(1, bench.time, cost=2.0) for _ in range(3)]
    second, other = device_task(2, bench.time), device_task(3, bench.time, tenant="other")
    await bench.enqueue(*first, second, other)
    found = await standing(bench, first[2].id)
    assert (found.state, found.ahead, found.ahead_cost, found.pending) == ("queued", 2, 4.0, 3)
    assert (found.queues, found.tenants, found.scheduled_in) == (2, 2, "text")
    assert found.queue_rank in {0, 1}
    assert found.tenant_rank in {0, 1}
    assert await bench.queue.views.standing(new_task_id()) is None


async def test_each_obstacle_is_named(bench: Bench) -> None:
    """Limit, rate, back-off, delay, pause and a runner's hold can all be read off."""
    limited = [device_task(1, bench.time) for _ in range(2)]
    rated = [device_task(2, bench.time) for _ in range(2)]
    early = replace(device_task(3, bench.time), not_before_ms=bench.time.ms + 5000)
    door = [object_task("door", bench.time) for _ in range(2)]
    await bench.queue.scripts.enqueue(
        [Placement(task, Entitlement(limit=1)) for task in limited]
        + [Placement(task, Entitlement(rate=1.0, burst=1)) for task in rated]
        + [Placement(task) for task in (early, *door)]
    )
    assert len(await bench.serve(10)) == 3
    assert (await standing(bench, limited[0].id)).state == "streamed"
    at_limit = await standing(bench, limited[1].id)
    assert (at_limit.inflight, at_limit.limit, at_limit.scheduled_in, at_limit.queue_rank) == (1, 1, "", None)
    at_rate = await standing(bench, rated[1].id)
    assert (at_rate.until_ms, at_rate.tokens) == (bench.time.ms + 1000, 0.0)
    assert (await standing(bench, early.id)).ready_ms == bench.time.ms + 5000
    await bench.queue.scripts.release([GivenBack(door[0].id, bench.owners.pop(door[0].id), 30.0, failed=True)])
    behind = await standing(bench, door[1].id)
    assert (behind.ahead, behind.until_ms, behind.failures) == (1, bench.time.ms + 30_000, 1)
    await bench.queue.scripts.pause("lane:text", paused=True, lanes=LANES)
    assert (await standing(bench, limited[1].id)).paused_lane_ms == bench.time.ms


async def test_queues_and_lanes_can_be_observed(bench: Bench) -> None:
    """A queue shows its length, key and the original's score; a lane its tenants, queues and pace."""
    tasks = [device_task(1, bench.time) for _ in range(3)]
    await bench.enqueue(*tasks, weight=2.0)
    bench.time.advance(20)
    [served] = await bench.serve(1)
    now, [state] = await bench.queue.views.queues([tasks[0].queue], now=str(bench.time.ms))
    assert (state.length, state.key, state.inflight, state.weight) == (2, 0.5, 1, 2.0)
    assert state.aging_score(now, max_wait_seconds=600, weight=1.5) == 30.0
    bench.time.advance(1000)
    assert state.aging_score(bench.time.ms, max_wait_seconds=600, weight=1.0) == 600.0
    await bench.queue.scripts.complete([Completion(served, bench.owners.pop(served), Result.GOOD, 2.0)])
    lane = await bench.queue.views.lane("text")
    assert (lane.tenants, lane.queues, lane.outstanding, lane.completed, lane.seconds_per_cost) == (1, 1, 0, 1, 2.0)
    assert await bench.queue.views.in_schedule("text", "default", limit=10) == [tasks[0].queue]
    nobody = QueueId.of_object("default", "nobody")
    assert await bench.queue.views.backlogs([tasks[0].queue, nobody]) == [2, 0]
