"""Runs workloads on this process's Valkey; each run has a prefix of its own and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from detectsched.embedded.servers import EmbeddedValkey
from detectsched.settings import RunnerSettings, SchedulerSettings, Settings
from detectsched.simulate.run import Comparison, SimulatedPolicy, compare
from detectsched.simulate.workload import Workload

Run = Callable[..., Awaitable[Comparison]]


@pytest.fixture(scope="session")
def run(redis_server: EmbeddedValkey) -> Run:
    """Give ``run(workload, *policies, seed=1, **scheduler)``: scheduler settings by name."""

    async def run_workload(
        workload: Workload, *policies: SimulatedPolicy, seed: int = 1, **scheduler: object
    ) -> Comparison:
        settings = Settings(scheduler=SchedulerSettings.model_validate(scheduler), runner=RunnerSettings())
        return await compare(
            workload,
            policies or (SimulatedPolicy.FAIR,),
            settings=settings,
            url=redis_server.url,
            seed=seed,
        )

    return run_workload
