"""Runs a workload under several policies at once, and puts their figures together."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pydantic import SecretStr

from detectsched.settings import Policy, Settings
from detectsched.simulate.arrivals import Tasks, make_tasks
from detectsched.simulate.engine import Simulation
from detectsched.simulate.formula import FormulaScheduler
from detectsched.simulate.machines import make_runners
from detectsched.simulate.measures import Figures, ideal_of, measure
from detectsched.simulate.record import Record
from detectsched.simulate.scheduler import Scheduler, VirtualClock
from detectsched.simulate.script_scheduler import ScriptScheduler
from detectsched.simulate.workload import Workload

_LONGER_THAN_ANY_RUN: Final = 7 * 86_400  # seconds


class SimulatedPolicy(StrEnum):
    """What may be compared: the product's policies, and the original's formula to the letter."""

    FAIR = "fair"
    AGING = "aging"
    FIFO = "fifo"
    ORIGINAL = "original"
    """A model in Python (`formula`); the others are the Lua scripts."""


Progress = Callable[[str, int, int], None]
"""Is told a policy, how many tasks have ended, and of how many."""


@dataclass(frozen=True, slots=True)
class PolicyRun:
    """One policy's run."""

    policy: SimulatedPolicy
    record: Record
    figures: Figures


@dataclass(frozen=True, slots=True)
class Comparison:
    """The same tasks under several policies."""

    workload: Workload
    seed: int
    tasks: Tasks
    runs: tuple[PolicyRun, ...]


async def compare(
    workload: Workload,
    policies: Sequence[SimulatedPolicy],
    *,
    settings: Settings,
    url: str,
    seed: int,
    progress: Progress = lambda _policy, _done, _all: None,
) -> Comparison:
    """Run a workload under each policy; the runs share a server, each under a prefix of its own.

    Args:
        workload: what is simulated.
        policies: under which the same tasks are run.
        settings: their ``scheduler`` and ``runner`` groups say how; everything else comes from the workload.
        url: a Redis or Valkey; nothing is left there.
        seed: of everything random.
        progress: is told how far each policy is.
    """
    tasks = make_tasks(workload, seed)
    ideal = ideal_of(workload, tasks)

    async def one(policy: SimulatedPolicy) -> PolicyRun:
        record = await run_policy(
            workload,
            tasks,
            policy,
            settings=settings,
            url=url,
            seed=seed,
            progress=lambda ended: progress(policy.value, ended, len(tasks)),
        )
        return PolicyRun(policy, record, measure(policy.value, workload, tasks, record, ideal))

    # While Python works on one policy, Valkey works on another.
    try:
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(one(policy)) for policy in policies]
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return Comparison(workload, seed, tasks, tuple(task.result() for task in running))


async def run_policy(
    workload: Workload,
    tasks: Tasks,
    policy: SimulatedPolicy,
    *,
    settings: Settings,
    url: str,
    seed: int,
    progress: Callable[[int], None] = lambda _: None,
    late: tuple[float, int] | None = None,
) -> Record:
    """Run tasks under one policy; ``late`` as in `Simulation`."""
    clock = VirtualClock()
    scheduler: Scheduler
    runners = make_runners(workload, seed)
    if policy is SimulatedPolicy.ORIGINAL:
        scheduler = FormulaScheduler(settings.scheduler, tasks, clock)
    else:
        scheduler = await ScriptScheduler.opened(
            _settings_of(settings, workload, policy, url),
            tasks,
            clock,
            may_defer=any(runner.outages for runner in runners) or any(kind.rate for kind in workload.classes),
        )
    try:
        return await Simulation(tasks, runners, scheduler, clock, settings, progress=progress, late=late).run()
    finally:
        await scheduler.close()


def _settings_of(settings: Settings, workload: Workload, policy: SimulatedPolicy, url: str) -> Settings:
    prefix = f"simulate-{secrets.token_hex(4)}-{policy.value}"
    # Several policies share the server, and nobody waits for one answer: better late than given up.
    redis = settings.redis.model_copy(update={"url": SecretStr(url), "prefix": prefix, "socket_timeout_seconds": 60.0})
    # Keys expire in Valkey's own time: by it nothing may, or a run would depend on how fast the machine is.
    scheduler = settings.scheduler.model_copy(
        update={"policy": Policy(policy.value), "queue_meta_ttl_seconds": _LONGER_THAN_ANY_RUN}
    )
    lanes = tuple(sorted({*settings.lanes, *workload.lanes}))
    return settings.model_copy(update={"redis": redis, "scheduler": scheduler, "lanes": lanes})
