"""Virtual time: the same seed gives the same run, no slot idles beside work, and nothing is lost when runners die."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
import redis.asyncio
from pydantic import SecretStr

from detectsched.embedded.servers import EmbeddedValkey
from detectsched.runner import worker
from detectsched.settings import RedisSettings, SchedulerSettings, Settings
from detectsched.simulate.arrivals import make_tasks
from detectsched.simulate.engine import Simulation
from detectsched.simulate.formula import FormulaScheduler
from detectsched.simulate.machines import make_runners
from detectsched.simulate.record import End
from detectsched.simulate.run import SimulatedPolicy
from detectsched.simulate.scheduler import Decisions, News, VirtualClock
from detectsched.simulate.script_scheduler import LEAST_MEASURED_SECONDS, ScriptScheduler
from detectsched.simulate.workload import (
    AtOnce,
    AtRandom,
    Bursts,
    DeviceClass,
    Lane,
    LognormalCost,
    Outage,
    Poisson,
    RunnerClass,
    Subject,
    Workload,
)
from tests.simulate.conftest import Run

ALL = (SimulatedPolicy.FAIR, SimulatedPolicy.AGING, SimulatedPolicy.FIFO, SimulatedPolicy.ORIGINAL)

LANES = ("ocr", "text")

FLEET = Workload(
    name="fleet",
    hours=0.03,
    lanes={"text": Lane(seconds_per_cost=0.2, noise=0.5), "ocr": Lane(seconds_per_cost=1.0, noise=0.3)},
    runners=(
        RunnerClass(count=3, slots={"text": 2, "ocr": 1}, outages=(Outage(at_seconds=40, for_seconds=30, runners=1),)),
        RunnerClass(slots={"ocr": 2}, speed=2.0),
    ),
    classes=(
        DeviceClass(name="texts", devices=20, arrivals=Poisson(per_hour=600), cost=LognormalCost()),
        DeviceClass(name="images", devices=10, lane="ocr", arrivals=Bursts(tasks=8, every_seconds=60)),
        DeviceClass(name="limited", limit=1, arrivals=AtOnce(tasks=30)),
        DeviceClass(name="objects", devices=5, subject=Subject.OBJECT, arrivals=AtRandom(tasks=10, until_seconds=100)),
    ),
)


async def test_the_same_seed_gives_the_same_run(run: Run) -> None:
    """Two runs are equal to the last start; another seed gives others."""
    first, again, other = await run(FLEET), await run(FLEET), await run(FLEET, seed=2)
    assert np.array_equal(first.runs[0].record.last_start, again.runs[0].record.last_start)
    assert np.array_equal(first.runs[0].record.runner, again.runs[0].record.runner)
    assert first.runs[0].figures == again.runs[0].figures
    assert first.runs[0].figures != other.runs[0].figures


async def test_no_slot_idles_while_something_could_start(run: Run) -> None:
    """Under every policy, with limits, objects, two lanes and a runner that dies, and every task is done."""
    comparison = await run(FLEET, *ALL)
    for one in comparison.runs:
        assert {lane.idle_with_work for lane in one.figures.lanes} == {0.0}, one.policy
        assert one.figures.total.done == len(comparison.tasks)
    served = {one.policy: tuple(one.record.first_start) for one in comparison.runs}
    assert served[SimulatedPolicy.FAIR] != served[SimulatedPolicy.FIFO], "the policies differ in nothing"


class _Lazy(FormulaScheduler):
    """Serves at every second occasion only."""

    asked = 0

    async def step(self, news: News) -> Decisions:
        """Do nothing now and then."""
        self.asked += 1
        if self.asked % 2:
            news.lanes = {}
        return await super().step(news)


async def test_an_idle_slot_beside_work_is_noticed() -> None:
    """The engine's own account of what could run catches a scheduler that is not work-conserving."""
    tasks, clock = make_tasks(FLEET, 1), VirtualClock()
    lazy = _Lazy(SchedulerSettings(), tasks, clock)
    record = await Simulation(tasks, make_runners(FLEET, 1), lazy, clock, Settings()).run()
    assert record.lanes["text"].idle_with_work > 1.0


async def test_what_a_dead_runner_held_is_started_again(run: Run) -> None:
    """It waits for the lease and a sweep, runs once more, and is done; nothing of it is lost or done twice."""
    workload = Workload(
        name="test",
        lanes={"text": Lane(seconds_per_cost=10.0)},
        runners=(
            RunnerClass(slots={"text": 3}, outages=(Outage(at_seconds=15, for_seconds=10_000),)),
            RunnerClass(slots={"text": 1}),
        ),
        classes=(DeviceClass(name="all", devices=4, arrivals=AtOnce(tasks=3)),),
    )
    [one] = (await run(workload)).runs
    record = one.record
    assert record.restarts == 3
    assert one.figures.total.done == 12
    again = record.last_start > record.first_start
    # 60 s of lease and 5 s of sweep after the death at 15 s, then in the order of the queues.
    assert record.last_start[again].min() >= 80.0
    assert {lane.idle_with_work for lane in one.figures.lanes} == {0.0}


async def test_overdue_tasks_expire_and_are_counted(run: Run) -> None:
    """What could not start within its time to live is expired, and everything else done."""
    workload = Workload(
        name="test",
        lanes={"text": Lane(seconds_per_cost=1.0)},
        runners=(RunnerClass(slots={"text": 1}),),
        classes=(DeviceClass(name="all", devices=5, arrivals=AtOnce(tasks=10)),),
    )
    comparison = await run(workload, task_ttl_seconds=20)
    [one] = comparison.runs
    assert (one.figures.total.done, one.figures.total.expired) == (20, 30)
    assert one.figures.total.wait is not None
    assert one.figures.total.wait.longest == pytest.approx(20.0, abs=1.1)


@pytest.mark.parametrize(("no_runner", "done"), [("defer", 10), ("dead_letter", 0)])
async def test_a_lane_without_runners_defers_or_gives_up(run: Run, no_runner: str, done: int) -> None:
    """Tasks that come while nobody is there wait under defer, and are dead letters under dead_letter."""
    workload = Workload(
        name="test",
        lanes={"text": Lane(seconds_per_cost=1.0)},
        runners=(RunnerClass(slots={"text": 1}, outages=(Outage(at_seconds=0, for_seconds=200),)),),
        classes=(DeviceClass(name="all", devices=5, arrivals=AtOnce(tasks=2, at_seconds=100)),),
    )
    [one] = (await run(workload, no_runner=no_runner)).runs
    assert (one.figures.total.done, one.figures.total.dead) == (done, 10 - done)
    assert np.all(one.record.end_state == (End.DONE if done else End.DEAD))


async def test_nothing_is_left_of_what_is_done(redis_server: EmbeddedValkey) -> None:
    """After limits, rates, objects, back-offs, deaths and returns only what expires, and the shard's few own keys."""
    shaken = (
        *FLEET.classes,
        DeviceClass(name="rated", devices=3, rate=2.0, burst=2, arrivals=AtOnce(tasks=10, at_seconds=30)),
    )
    gone = RunnerClass(count=2, slots={"text": 2, "ocr": 1}, outages=(Outage(at_seconds=40, for_seconds=150),))
    workload = FLEET.model_copy(update={"classes": shaken, "runners": (gone,)})
    tasks, clock = make_tasks(workload, 1), VirtualClock()
    redis_settings = RedisSettings(url=SecretStr(redis_server.url), prefix="shaken")
    scheduler = await ScriptScheduler.opened(Settings(redis=redis_settings), tasks, clock)
    record = await Simulation(tasks, make_runners(workload, 1), scheduler, clock, Settings()).run()
    async with redis.asyncio.from_url(redis_server.url, decode_responses=True) as client:
        names = [name async for name in client.scan_iter("{shaken:0}:*", count=1000)]
        kept = {name.partition("}:")[2] for name in names if await client.ttl(name) == -1}
        assert await client.get("{shaken:0}:global_pending") == "0"
        assert [await client.xlen("{shaken:0}:stream:" + lane) for lane in ("ocr", "text")] == [0, 0]
    await scheduler.close()
    assert np.all(record.end_state == End.DONE)
    assert record.restarts > 0
    assert len(record.resumptions) == 2
    own = {"generation", "scheduler", "mac:clock", "lane:seconds", "lane:completed", "global_pending"}
    assert kept - {"lane:last"} == own | {
        f"{family}:{lane}" for family, lanes in (("stream", LANES), ("wake", (*LANES, "@deferred"))) for lane in lanes
    }


async def test_a_rate_is_kept_in_virtual_time(run: Run) -> None:
    """A device of two tasks a second and a burst of three starts them so, though slots are free."""
    workload = Workload(
        name="test",
        lanes={"text": Lane(seconds_per_cost=0.01)},
        runners=(RunnerClass(slots={"text": 8}),),
        classes=(DeviceClass(name="all", rate=2.0, burst=3, arrivals=AtOnce(tasks=7)),),
    )
    [one] = (await run(workload)).runs
    assert np.sort(one.record.first_start) == pytest.approx([0, 0, 0, 0.5, 1.0, 1.5, 2.0], abs=0.002)


async def test_work_that_takes_longer_than_estimated_is_charged(run: Run) -> None:
    """Two devices of equal estimates, one of which really takes three times as long, get equal shares of the slots."""
    honest = DeviceClass(name="honest", arrivals=AtOnce(tasks=600))
    heavy = DeviceClass(name="heavy", really=3.0, arrivals=AtOnce(tasks=200))
    workload = Workload(
        name="test",
        lanes={"text": Lane(seconds_per_cost=0.1)},
        runners=(RunnerClass(slots={"text": 2}),),
        classes=(honest, heavy),
    )
    comparison = await run(workload)
    tasks, record = comparison.tasks, comparison.runs[0].record
    taken = tasks.seconds * (record.first_start <= 24)
    light_work, heavy_work = np.bincount(tasks.kind, weights=taken)
    assert light_work / heavy_work == pytest.approx(1.0, abs=0.1)


def test_only_times_that_runners_measure_are_reported() -> None:
    """The simulated runners leave out what the real ones do."""
    assert LEAST_MEASURED_SECONDS == worker._LEAST_MEASURED_SECONDS


def test_runners_fail_alike_under_every_policy() -> None:
    """Random outages come from the seed alone, do not overlap, and a further runner leaves the others' as they are."""
    kind = RunnerClass(count=5, slots={"text": 1}, mtbf_hours=0.05, mttr_seconds=60)
    workload = FLEET.model_copy(update={"hours": 2.0, "runners": (kind,)})

    def outages(count: int, seed: int) -> Sequence[tuple[tuple[float, float], ...]]:
        return [runner.outages for runner in make_runners(workload.with_runners(count=count), seed)]

    assert outages(5, 1) == outages(6, 1)[:5]
    assert outages(5, 1) != outages(5, 2)
    for own in outages(5, 1):
        assert own
        assert all(end < start for (_, end), (start, _) in pairwise(own))
