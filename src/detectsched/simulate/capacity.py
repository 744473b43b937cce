"""How many runners keep the p99 wait below a target."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from detectsched.errors import InvalidRequest
from detectsched.settings import Settings
from detectsched.simulate.arrivals import Tasks, make_tasks
from detectsched.simulate.measures import quantile, waits_of
from detectsched.simulate.run import SimulatedPolicy, run_policy
from detectsched.simulate.workload import Workload

MOST_RUNNERS = 10_000


@dataclass(frozen=True, slots=True)
class Probe:
    """One number of runners that was tried; ``p99`` is None where the run was given up, being over the target."""

    runners: int
    p99: float | None
    enough: bool


async def find_runners(
    workload: Workload,
    policy: SimulatedPolicy,
    *,
    target_p99_seconds: float,
    settings: Settings,
    url: str,
    seed: int,
    tried: Callable[[Probe], None] = lambda _: None,
) -> tuple[int, list[Probe]]:
    """Return the least number of runners (of the workload's first class) that keeps 99 of 100 waits to the target.

    Doubles until it is enough, then bisects; every trial is the whole workload, given up as soon as more than one task
    in a hundred has waited longer.

    Raises:
        InvalidRequest: `MOST_RUNNERS` are not enough, so that more of them are no answer.
    """
    tasks = make_tasks(workload, seed)
    probes: list[Probe] = []

    async def is_enough(count: int) -> bool:
        probe = await _probe(workload.with_runners(count=count), tasks, policy, target_p99_seconds, settings, url, seed)
        probes.append(probe)
        tried(probe)
        return probe.enough

    too_few, enough = 0, _least_by_load(workload, tasks)
    while not await is_enough(enough):
        if enough >= MOST_RUNNERS:
            raise InvalidRequest(f"not even {MOST_RUNNERS:,} runners bring the p99 wait below {target_p99_seconds:g} s")
        too_few, enough = enough, min(2 * enough, MOST_RUNNERS)
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        if await is_enough(middle):
            enough = middle
        else:
            too_few = middle
    return enough, sorted(probes, key=lambda probe: probe.runners)


async def _probe(
    workload: Workload,
    tasks: Tasks,
    policy: SimulatedPolicy,
    target: float,
    settings: Settings,
    url: str,
    seed: int,
) -> Probe:
    allowed = len(tasks) - math.ceil(0.99 * len(tasks) - 1e-9)
    record = await run_policy(workload, tasks, policy, settings=settings, url=url, seed=seed, late=(target, allowed))
    count = workload.runners[0].count
    waits = waits_of(tasks, record)
    if record.ended_count < len(tasks):
        return Probe(count, None, enough=False)
    p99 = quantile(np.sort(waits), 0.99)
    return Probe(count, p99, enough=p99 <= target)


def _least_by_load(workload: Workload, tasks: Tasks) -> int:
    """Return as many runners as the work would keep busy all the time: a first guess, not a bound."""
    first = workload.runners[0]
    lane_of = np.array([device.lane for device in tasks.devices])[tasks.device]
    busiest = 1.0
    for lane, slots in first.slots.items():
        work = float(np.sum(tasks.seconds[lane_of == lane]))
        busiest = max(busiest, work / (workload.hours * 3600 * slots * first.speed))
    return min(math.ceil(busiest), MOST_RUNNERS)
