"""Who is served next: equal shares of work per tenant, then per queue, by weight."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from uuid import UUID

import pytest

from detectsched.queueing.queue import Turns
from detectsched.settings import Policy, SchedulerSettings, Settings
from detectsched.task import QueuedTask
from tests.support.actors import Bench, device_task, object_task

SHORT_TURNS = Turns(batch=1, min_batch=1, starvation_seconds=30.0, order="fifo")


def backlog(bench: Bench, device: int, count: int, *, tenant: str = "default", cost: float = 1.0) -> list[QueuedTask]:
    """Return waiting tasks of one device."""
    return [device_task(device, bench.time, tenant=tenant, cost=cost) for _ in range(count)]


async def shares(bench: Bench, owners: dict[UUID, str], rounds: int, turns: Turns = SHORT_TURNS) -> Counter[str]:
    """Serve one task after the other; return the cost each owner's tasks got."""
    served: Counter[str] = Counter()
    for _ in range(rounds):
        [task_id] = await bench.serve(1, turns=turns)
        served[owners[task_id]] += 1
        await bench.complete(task_id)
    return served


async def test_weights_divide_the_service(bench: Bench) -> None:
    """Three backlogged devices of weights 1, 2 and 4 are served in that proportion, to within one task."""
    owners: dict[UUID, str] = {}
    for device, weight in ((1, 1.0), (2, 2.0), (3, 4.0)):
        tasks = backlog(bench, device, 120)
        owners |= {task.id: f"weight {weight:.0f}" for task in tasks}
        await bench.enqueue(*tasks, weight=weight)
    served = await shares(bench, owners, 140)
    assert served["weight 1"] == pytest.approx(20, abs=1)
    assert served["weight 2"] == pytest.approx(40, abs=1)
    assert served["weight 4"] == pytest.approx(80, abs=1)


async def test_shares_are_of_work_not_of_counts(bench: Bench) -> None:
    """A device with tasks of cost 20 gets as much work as one with tasks of cost 1."""
    dear, cheap = backlog(bench, 1, 20, cost=20.0), backlog(bench, 2, 200)
    await bench.enqueue(*dear, *cheap)
    costs = {task.id: ("dear", 20) for task in dear} | {task.id: ("cheap", 1) for task in cheap}
    work: Counter[str] = Counter()
    while work.total() < 200:
        [task_id] = await bench.serve(1, turns=SHORT_TURNS)
        owner, cost = costs[task_id]
        work[owner] += cost
        await bench.complete(task_id)
        assert abs(work["dear"] - work["cheap"]) <= 21


async def test_tenants_share_first_and_devices_second(bench: Bench) -> None:
    """A tenant with fifty devices gets no more than a tenant with one."""
    owners: dict[UUID, str] = {}
    for device in range(50):
        tasks = backlog(bench, device, 2, tenant="many")
        owners |= {task.id: "many" for task in tasks}
        await bench.enqueue(*tasks)
    tasks = backlog(bench, 99, 60, tenant="one")
    owners |= {task.id: "one" for task in tasks}
    await bench.enqueue(*tasks)
    served = await shares(bench, owners, 80)
    assert abs(served["many"] - served["one"]) <= 1


async def test_a_turn_has_ten_tasks_while_nobody_starves(bench: Bench) -> None:
    """A turn has ten tasks of standard cost."""
    first, second = backlog(bench, 1, 20), backlog(bench, 2, 20)
    turns = Turns(batch=10, min_batch=1, starvation_seconds=30.0, order="fifo")
    await bench.enqueue(*first, *second)
    bench.time.advance(29)
    served = await bench.serve(12, turns=turns)
    assert served == [task.id for task in (*first[:10], *second[:2])]
    await bench.complete(*served)


async def test_a_turn_is_cut_to_one_task_for_a_starving_candidate(bench: Bench) -> None:
    """The candidate that has waited for thirty seconds comes after a single task of the first."""
    first, second = backlog(bench, 1, 20), backlog(bench, 2, 20)
    turns = Turns(batch=10, min_batch=1, starvation_seconds=30.0, order="fifo")
    await bench.enqueue(*first, *second)
    bench.time.advance(30)
    # The second's own turn is whole again: the first has just been served.
    assert await bench.serve(3, turns=turns) == [first[0].id, second[0].id, second[1].id]


async def test_a_turn_cut_short_keeps_its_place(bench: Bench) -> None:
    """With room for one task at a time, devices alternate all the same and nobody is skipped."""
    first, second = backlog(bench, 1, 3), backlog(bench, 2, 3)
    await bench.enqueue(*first, *second)
    served = [task_id for _ in range(6) for task_id in await bench.serve(1)]
    expected = [task.id for pair in zip(first, second, strict=True) for task in pair]
    assert served == expected


async def test_weights_hold_however_long_everybody_waits(bench: Bench) -> None:
    """Tasks of thirty seconds make every candidate starve; a heavy device keeps its share all the same."""
    owners: dict[UUID, str] = {}
    for device, weight in ((1, 1.0), (2, 2.0), (3, 4.0)):
        tasks = backlog(bench, device, 60)
        owners |= {task.id: f"weight {weight:.0f}" for task in tasks}
        await bench.enqueue(*tasks, weight=weight)
    served: Counter[str] = Counter()
    for _ in range(21):
        bench.time.advance(30)
        batch = await bench.serve(4)
        served.update(owners[task_id] for task_id in batch)
        await bench.complete(*batch)
    assert served["weight 1"] == pytest.approx(12, abs=1)
    assert served["weight 2"] == pytest.approx(24, abs=1)
    assert served["weight 4"] == pytest.approx(48, abs=1)


async def test_fifo_is_global_whatever_the_room(settings: Settings) -> None:
    """Under fifo tasks are served in the order in which they came, also when one queue could fill all the room."""
    bench = await Bench.opened(settings.model_copy(update={"scheduler": SchedulerSettings(policy=Policy.FIFO)}))
    tasks = [device_task(number % 3, bench.time) for number in range(30)]
    await bench.enqueue(*tasks)
    bench.time.advance(60)
    assert await bench.serve(30, turns=Turns(batch=10, min_batch=1, starvation_seconds=30.0, order="fifo")) == [
        task.id for task in tasks
    ]
    await bench.clients.close()


async def test_an_outage_forgets_no_tenants_place(bench: Bench) -> None:
    """What a tenant's queues have been served is known while any of them waits: who comes then has no head start."""
    old = backlog(bench, 1, 60)
    await bench.enqueue(*old)
    await bench.complete(*await bench.serve(40, turns=SHORT_TURNS))
    assert await bench.clients.commands.ttl(bench.queue.keys.named("tenant:meta:text:default")) == -1


async def test_an_idle_device_saves_up_no_credit(bench: Bench) -> None:
    """Who was idle while another was served begins at the present, and does not catch up the past."""
    busy = backlog(bench, 1, 60)
    await bench.enqueue(*busy)
    for task_id in [await bench.serve(1, turns=SHORT_TURNS) for _ in range(40)]:
        await bench.complete(*task_id)
    late = backlog(bench, 2, 20)
    await bench.enqueue(*late)
    owners: dict[UUID, str] = {task.id: "busy" for task in busy} | {task.id: "late" for task in late}
    served = await shares(bench, owners, 10)
    assert abs(served["busy"] - served["late"]) <= 1


async def test_what_a_dead_runner_holds_uses_up_no_room(bench: Bench) -> None:
    """Capacity is that of the living: entries pending with others do not count against it."""
    await bench.enqueue(*backlog(bench, 1, 4))
    dispatch = bench.queue.scripts.dispatch
    await dispatch("text", capacity=2, live=["dead:1:a"], turns=SHORT_TURNS)
    assert len(await bench.queue.read("text", "dead:1:a", count=10, block_seconds=0.01)) == 2
    assert (await dispatch("text", capacity=2, live=["dead:1:a"], turns=SHORT_TURNS)).sent == 0
    assert (await dispatch("text", capacity=2, live=[bench.consumer], turns=SHORT_TURNS)).sent == 2


async def pass_ttl(bench: Bench) -> None:
    """Let the time to live of every key pass that has one."""
    redis = bench.clients.commands
    mortal = [key async for key in redis.scan_iter(count=1000) if await redis.pttl(key) >= 0]
    if mortal:
        await redis.delete(*mortal)


async def test_an_outage_gives_nobody_an_advantage(bench: Bench) -> None:
    """No runner comes for longer than anything is remembered; whoever waits keeps its place among the tenants."""
    owners: dict[UUID, str] = {}
    for tenant in ("a", "b"):
        tasks = backlog(bench, 1, 40, tenant=tenant)
        owners |= {task.id: tenant for task in tasks}
        await bench.enqueue(*tasks, tenant_weight=2.0 if tenant == "b" else 1.0)
    await shares(bench, owners, 30)
    await pass_ttl(bench)
    [more] = backlog(bench, 1, 1, tenant="a")
    owners[more.id] = "a"
    await bench.enqueue(more)
    assert await shares(bench, owners, 15) == {"a": 5, "b": 10}


async def test_a_queue_that_outlives_its_tenants_clock_waits_for_nobody(bench: Bench) -> None:
    """A task runs for longer than its idle tenant is remembered; its queue's old key does not hold it back then."""
    busy = backlog(bench, 1, 31)
    await bench.enqueue(*busy[:30], limit=1)
    owners: dict[UUID, str] = {task.id: "busy" for task in busy}
    await shares(bench, owners, 29)
    [running] = await bench.serve(1, turns=SHORT_TURNS)
    await bench.enqueue(busy[30], limit=1)
    await pass_ttl(bench)
    others = backlog(bench, 2, 20)
    owners |= {task.id: "others" for task in others}
    await bench.enqueue(*others)
    await shares(bench, owners, 3)
    await bench.complete(running)
    assert (await shares(bench, owners, 2))["busy"] == 1


async def test_an_object_does_not_carry_its_place_from_lane_to_lane(bench: Bench) -> None:
    """What an object was served in a busy lane does not hold its tasks back in a quiet one, and is not forgotten."""
    images = [object_task("door", bench.time, lane="ocr") for _ in range(20)]
    text, image = object_task("door", bench.time), object_task("door", bench.time, lane="ocr")
    await bench.enqueue(*images, text, image, *backlog(bench, 1, 20))
    for expected in images:
        assert await bench.serve(1, lane="ocr", turns=SHORT_TURNS) == [expected.id]
        await bench.complete(expected.id)
    for _ in range(3):
        await bench.complete(*await bench.serve(1, turns=SHORT_TURNS))
    assert await bench.queue.unknown([text.id]) == [text.id]
    rival = object_task("gate", bench.time, lane="ocr")
    await bench.enqueue(rival)
    # The gate begins at the present, where the door's last image was served: the door is a task ahead of it.
    assert await bench.serve(1, lane="ocr", turns=SHORT_TURNS) == [rival.id]


async def test_a_head_that_changes_its_lane_wakes_the_other(bench: Bench) -> None:
    """The head of an object expires; what comes next in another lane is known there at once."""
    first = replace(object_task("door", bench.time, lane="ocr"), expires_ms=bench.time.ms + 1000)
    await bench.enqueue(first, object_task("door", bench.time))
    bench.time.advance(2)
    assert await bench.serve(1, lane="ocr") == []
    assert await bench.queue.wait_for_work("text", timeout_seconds=1.0)


@pytest.mark.parametrize("policy", [Policy.AGING, Policy.FIFO])
async def test_other_policies_serve_the_oldest_head(settings: Settings, policy: Policy) -> None:
    """Under aging the queue whose head waits longest is served, under fifo the task that came first."""
    bench = await Bench.opened(settings.model_copy(update={"scheduler": SchedulerSettings(policy=policy)}))
    first, second = backlog(bench, 1, 1), backlog(bench, 2, 1, tenant="other")
    bench.time.advance(5)
    third = backlog(bench, 1, 1)
    await bench.enqueue(*second, *first, *third)
    served = [task_id for _ in range(3) for task_id in await bench.serve(1, turns=SHORT_TURNS)]
    await bench.clients.close()
    assert served[2] == third[0].id
    if policy is Policy.FIFO:
        assert served == [first[0].id, second[0].id, third[0].id]
