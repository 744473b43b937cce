"""What operators and failures do to queues: pauses, rates, back-offs, lanes without runners."""

from __future__ import annotations

from dataclasses import replace

import pytest

from detectsched.queueing.queue import Completion, GivenBack, Placement, Result, Turns
from detectsched.settings import Policy, Settings
from detectsched.task import Entitlement, QueuedTask
from tests.support.actors import DEFAULT_TURNS, Bench, device_task, object_task

LANES = ("ocr", "text")


async def promote(bench: Bench) -> int:
    """Bring back what is due."""
    return (await bench.queue.scripts.promote(lease_seconds=60, limit=100, lanes=LANES)).count


async def enqueue(bench: Bench, entitlement: Entitlement, *tasks: QueuedTask) -> None:
    """Queue tasks with an entitlement."""
    await bench.queue.scripts.enqueue([Placement(task, entitlement) for task in tasks])


@pytest.mark.parametrize("what", ["lane:text", "tenant:default", "subject:default:{mac}"])
async def test_what_is_paused_waits_and_what_is_resumed_goes_on(bench: Bench, what: str) -> None:
    """A paused lane, tenant or device is not served; resuming serves it where it stood."""
    task = device_task(1, bench.time)
    await bench.enqueue(task)
    what = what.format(mac=task.mac)
    queues = [task.queue] if what.startswith("subject") else []
    await bench.queue.scripts.pause(what, paused=True, lanes=LANES, queues=queues)
    later = device_task(1, bench.time)
    await bench.enqueue(later)
    assert await bench.serve(5) == []
    assert list(await bench.queue.paused()) == [what]
    await bench.queue.scripts.pause(what, paused=False, lanes=LANES, queues=queues)
    assert await bench.serve(5) == [task.id, later.id]


async def test_only_what_is_paused_is_held_up(bench: Bench) -> None:
    """Other tenants and devices are served while one is paused."""
    mine, other = device_task(1, bench.time, tenant="mine"), device_task(2, bench.time, tenant="other")
    await bench.enqueue(mine, other)
    await bench.queue.scripts.pause("tenant:mine", paused=True, lanes=LANES)
    assert await bench.serve(5) == [other.id]


async def test_a_device_starts_no_more_than_its_rate(bench: Bench) -> None:
    """With two a second and a burst of three, three start at once and then one each half second."""
    tasks = [device_task(1, bench.time) for _ in range(6)]
    await enqueue(bench, Entitlement(rate=2.0, burst=3), *tasks)
    assert len(await bench.serve(10)) == 3
    assert await bench.serve(10) == []
    started = []
    for _ in range(4):
        bench.time.advance(0.25)
        await promote(bench)
        started.append(len(await bench.serve(10)))
    assert started == [0, 1, 0, 1]


async def test_a_tenants_rate_holds_for_all_its_devices_and_lanes(bench: Bench) -> None:
    """The devices of a tenant share its tokens, in every lane; another tenant has its own."""
    entitlement = Entitlement(tenant_rate=1.0, tenant_burst=2)
    texts = [device_task(number, bench.time, tenant="slow") for number in range(3)]
    image = device_task(9, bench.time, tenant="slow", lane="ocr")
    await enqueue(bench, entitlement, *texts, image)
    free = device_task(1, bench.time, tenant="free")
    await enqueue(bench, Entitlement(), free)
    served = await bench.serve(10)
    assert free.id in served
    assert len(served) == 3
    assert await bench.serve(10, lane="ocr") == []
    bench.time.advance(1)
    await promote(bench)
    assert len(await bench.serve(10, lane="ocr")) + len(await bench.serve(10)) == 1


async def test_a_slow_rate_is_remembered_until_it_is_due(bench: Bench) -> None:
    """A tenant of one task a fortnight is not set free because nothing was heard of it meanwhile."""
    entitlement = Entitlement(tenant_rate=1 / (14 * 86_400), tenant_burst=1)
    await enqueue(bench, entitlement, *(device_task(1, bench.time, tenant="slow") for _ in range(2)))
    assert len(await bench.serve(10)) == 1
    assert await bench.clients.commands.ttl(bench.queue.keys.named("tenant:limits:slow")) > 14 * 86_400


async def test_a_given_back_task_returns_its_token(bench: Bench) -> None:
    """What was not run does not count against the rate."""
    tasks = [device_task(1, bench.time) for _ in range(2)]
    await enqueue(bench, Entitlement(rate=0.1, burst=1), *tasks)
    [first] = await bench.serve(10)
    await bench.queue.scripts.release([GivenBack(first, bench.owners.pop(first), refund=True)])
    await bench.queue.scripts.entitle([(tasks[0].queue, "text", Entitlement(rate=0.1, burst=1))])
    bench.time.advance(10)
    await promote(bench)
    assert await bench.serve(10) == [first]


async def test_a_changed_weight_counts_at_once(bench: Bench) -> None:
    """A device whose limit is raised gets its places without a new task coming."""
    tasks = [device_task(1, bench.time) for _ in range(3)]
    await enqueue(bench, Entitlement(limit=1), *tasks)
    assert len(await bench.serve(10)) == 1
    assert await bench.serve(10) == []
    await bench.queue.scripts.entitle([(tasks[0].queue, "text", Entitlement(limit=3))])
    assert len(await bench.serve(10)) == 2


async def test_a_failing_device_backs_off_and_then_probes(settings: Settings) -> None:
    """After failures in a row a queue waits by the curve; then one task at a time runs until one is good."""
    scheduler = settings.scheduler.model_copy(
        update={"failure_threshold": 2, "backoff_base_seconds": 30.0, "backoff_max_seconds": 600.0}
    )
    bench = await Bench.opened(settings.model_copy(update={"scheduler": scheduler}))
    tasks = [device_task(1, bench.time) for _ in range(6)]
    await bench.enqueue(*tasks)

    async def end(task_id: object, result: Result) -> None:
        identity = next(task.id for task in tasks if task.id == task_id)
        await bench.queue.scripts.complete([Completion(identity, bench.owners.pop(identity), result)])

    for task_id in await bench.serve(2):
        await end(task_id, Result.BAD)
    assert await bench.serve(10) == []
    bench.time.advance(30)
    assert await promote(bench) == 1
    [probe] = await bench.serve(10)
    await end(probe, Result.BAD)
    bench.time.advance(59)
    assert await promote(bench) == 0
    bench.time.advance(1)
    await promote(bench)
    [probe] = await bench.serve(10)
    await end(probe, Result.GOOD)
    assert len(await bench.serve(10)) == 2
    await bench.clients.close()


async def test_queues_back_off_for_want_of_a_runner_and_resume_at_once(bench: Bench, settings: Settings) -> None:
    """Without a runner queues are deferred by the curve; a runner ends that at once."""
    tasks = [device_task(number, bench.time) for number in range(3)]
    await bench.enqueue(*tasks)
    base = settings.scheduler.backoff_base_seconds
    done = await bench.queue.scripts.defer("text", policy="defer", max_defers=2, limit=2)
    assert (done.queues, done.given_up, done.more) == (2, 0, True)
    assert (await bench.queue.scripts.defer("text", policy="defer", max_defers=2, limit=2)).queues == 1
    bench.time.advance(base)
    assert await promote(bench) == 3
    await bench.queue.scripts.defer("text", policy="defer", max_defers=2, limit=10)
    bench.time.advance(base)
    assert await promote(bench) == 0
    assert await bench.queue.scripts.resume("text", limit=10) == (3, False)
    assert sorted(await bench.serve(10)) == sorted(task.id for task in tasks)


async def test_a_head_is_given_up_after_too_many_deferrals(bench: Bench) -> None:
    """Past MAX_DEFERS the head goes to the settlement list as dead, and what is behind it waits on."""
    first, second = device_task(1, bench.time), device_task(1, bench.time)
    await bench.enqueue(first, second)
    given_up = []
    for _ in range(3):
        given_up.append((await bench.queue.scripts.defer("text", policy="defer", max_defers=2, limit=10)).given_up)
        bench.time.advance(600)
        await promote(bench)
    assert given_up == [0, 0, 1]
    assert await bench.queue.settlements(10) == [f"dead|{first.id}".encode()]
    assert (await bench.queue.level(LANES))["total_pending"] == 1
    await bench.queue.scripts.resume("text", limit=10)
    assert await bench.serve(5) == [second.id]


@pytest.mark.parametrize("policy", ["defer", "dead_letter"])
async def test_nobody_is_missed_in_a_paused_lane(bench: Bench, policy: str) -> None:
    """While its runners are being replaced nothing backs off and nothing is given up."""
    task = device_task(1, bench.time)
    await bench.enqueue(task)
    await bench.queue.scripts.pause("lane:text", paused=True, lanes=LANES)
    for _ in range(3):
        done = await bench.queue.scripts.defer("text", policy=policy, max_defers=1, limit=10)
        assert (done.queues, done.given_up, done.more) == (0, 0, False)
    await bench.queue.scripts.pause("lane:text", paused=False, lanes=LANES)
    assert await bench.serve(5) == [task.id]


async def test_dead_letter_policy_gives_everything_up(bench: Bench) -> None:
    """Under dead_letter every waiting task of a lane without a runner is dead at once."""
    tasks = [device_task(number % 2, bench.time) for number in range(5)]
    await bench.enqueue(*tasks)
    done = await bench.queue.scripts.defer("text", policy="dead_letter", max_defers=5, limit=100)
    assert (done.given_up, done.more) == (5, False)
    assert len(await bench.queue.settlements(10)) == 5


async def test_an_objects_early_task_keeps_its_successors_waiting(bench: Bench) -> None:
    """not_before of an object's head holds the object up; of a device's task only that task."""
    early = replace(object_task("door", bench.time), not_before_ms=bench.time.ms + 10_000)
    await bench.enqueue(early, object_task("door", bench.time))
    late, prompt = replace(device_task(1, bench.time), not_before_ms=bench.time.ms + 10_000), device_task(1, bench.time)
    await bench.enqueue(late, prompt)
    assert await bench.serve(10) == [prompt.id]
    bench.time.advance(10)
    assert await promote(bench) == 2
    assert sorted(await bench.serve(10)) == sorted([early.id, late.id])


async def test_the_queue_just_served_is_not_next_while_another_starves(settings: Settings) -> None:
    """Under aging an old backlog would win every choice; a starving candidate gets every other turn."""
    policy = settings.scheduler.model_copy(update={"policy": Policy.AGING})
    bench = await Bench.opened(settings.model_copy(update={"scheduler": policy}))
    old = [device_task(1, bench.time) for _ in range(5)]
    bench.time.advance(1)
    young = [device_task(2, bench.time) for _ in range(5)]
    await bench.enqueue(*old, *young)
    bench.time.advance(40)
    turns = Turns(batch=1, min_batch=1, starvation_seconds=30.0, order="fifo")
    assert await bench.serve(2, turns=turns) == [old[0].id, young[0].id]
    await bench.clients.close()


async def test_what_work_really_took_corrects_the_shares(bench: Bench) -> None:
    """A device whose tasks take four times their estimate is charged for it, within a factor of ten."""
    slow, quick = [device_task(1, bench.time) for _ in range(60)], [device_task(2, bench.time) for _ in range(60)]
    await bench.enqueue(*slow, *quick)
    owners = {task.id: 4.0 for task in slow} | {task.id: 1.0 for task in quick}
    work = {4.0: 0.0, 1.0: 0.0}
    for _ in range(60):
        [task_id] = await bench.serve(1, turns=Turns(1, 1, 30.0, "fifo"))
        seconds = owners[task_id]
        work[seconds] += seconds
        await bench.queue.scripts.complete([Completion(task_id, bench.owners.pop(task_id), Result.GOOD, seconds)])
    # Equal shares of work, not of counts: four quick ones for a slow one. The average settles as it goes.
    assert work[4.0] == pytest.approx(work[1.0], rel=0.25)


async def test_an_unpaused_queue_is_served_under_lifo(bench: Bench) -> None:
    """Lifo takes the freshest task of a device first; an object keeps its order."""
    tasks = [device_task(1, bench.time) for _ in range(3)]
    objects = [object_task("door", bench.time) for _ in range(2)]
    await bench.enqueue(*tasks, *objects)
    turns = Turns(batch=1, min_batch=1, starvation_seconds=30.0, order="lifo")
    served = await bench.serve(10, turns=turns)
    assert [task_id for task_id in served if task_id != objects[0].id] == [task.id for task in reversed(tasks)]
    assert objects[0].id in served
    assert DEFAULT_TURNS.order == "fifo"
