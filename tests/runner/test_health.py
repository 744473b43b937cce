"""When a runner takes new work: smoothed foreign load with hysteresis, own work left out."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from detectsched.runner.gauge import Gauge
from detectsched.runner.gpu import GpuState, GpuWatch
from detectsched.runner.health import Health
from detectsched.runner.probe import Probe
from detectsched.settings import RunnerSettings
from tests.support.container import Container
from tests.support.nvml import Driver
from tests.support.waiting import wait_until

OTHERS = 999_999_999
"""A process id that no machine has."""


def test_a_gauge_waits_for_a_lasting_load_and_does_not_flap() -> None:
    """One high sample does not press it; a lasting one does; it is released well below the watermark only."""
    gauge = Gauge("load", 75.0)
    pressed = []
    for samples in ([100], [100] * 10, [70] * 30, [60] * 30):
        for sample in samples:
            gauge.update(sample)
        pressed.append(gauge.pressed)
    assert pressed == [False, True, True, False]


def test_an_unknown_load_presses_nobody_and_is_forgotten() -> None:
    """After it, a load has to last again before it counts."""
    gauge = Gauge("load", 75.0)
    for _ in range(10):
        gauge.update(100)
    gauge.update(None)
    assert not gauge.pressed
    gauge.update(100)
    assert not gauge.pressed


def test_a_watermark_of_100_is_never_exceeded() -> None:
    """It is how a watermark is switched off."""
    gauge = Gauge("load", 100.0)
    for _ in range(100):
        gauge.update(100)
    assert not gauge.pressed


class Runner:
    """A runner's health, with the CPU of this machine left aside: it has other work to do."""

    def __init__(self, gpus: GpuWatch | None = None, probe: Probe | None = None) -> None:
        self.changes: list[str] = []
        self.ready = True
        self.idle = 60.0
        self.gpu_works = True
        self.health = Health(
            RunnerSettings(cpu_high_percent=100),
            engine_ready=lambda: self.ready,
            sibling_pids=lambda: (),
            idle_seconds=lambda: self.idle,
            on_change=lambda: self.changes.append(self.health.reason),
            gpus=gpus,
            gpu_works=lambda: self.gpu_works,
            probe=probe,
        )

    async def state_after(self, samples: int = 20) -> str:
        """Take samples; return the state they lead to."""
        for _ in range(samples):
            await self.health.run_once()
        return self.health.state


async def test_the_state_says_why() -> None:
    """A runner whose engine is not ready, or that stops, is not working, and says so at once."""
    runner = Runner()
    assert await runner.state_after(1) == "healthy"
    assert runner.health.may_work()
    runner.ready = False
    assert await runner.state_after(1) == "busy"
    assert not runner.health.may_work()
    runner.ready = True
    await runner.state_after(1)
    runner.health.announce_stop()
    assert not runner.health.may_work()
    assert runner.changes == ["its engine is not ready", "", "it is shutting down"]


async def test_memory_that_others_use_in_the_container_presses(tmp_path: Path) -> None:
    """The group's limit counts, far below the machine's memory; the reason names load and watermark."""
    container = Container(tmp_path)
    runner = Runner(probe=container.probe())
    states = []
    for share in (0.2, 0.99, 0.2):
        container.fill(share)
        await wait_until(partial(_measures, runner, 100 * share), "a fresh measurement")
        states.append(await runner.state_after())
    assert states == ["healthy", "busy", "healthy"]
    assert runner.changes[0].startswith("memory use of others ")
    assert runner.changes[0].endswith(" % > 75 %")


async def _measures(runner: Runner, percent: float) -> bool:
    await runner.health.run_once()
    assert runner.health.load is not None
    return abs(runner.health.load.memory_percent - percent) < 0.01


@asynccontextmanager
async def watched(visible: str | None = None) -> AsyncIterator[GpuWatch]:
    """Give a watch that has seen the driver's present answers."""
    watch = GpuWatch(visible, sample_seconds=0.005)
    await watch.start()
    try:
        yield watch
    finally:
        await watch.stop()


async def say(driver: Driver, watch: GpuWatch, util: int, processes: str) -> None:
    """Change the answers and wait until they were heard."""
    used = sum(int(process.split(":")[1]) for process in processes.split(","))
    driver.say({"0.util": util, "0.processes": processes, "0.used": used})

    def heard() -> bool:
        [sample] = watch._sampler.seen.samples
        return (sample.memory, sample.util) == ((100, used), util)

    await wait_until(heard, "the new answers")


async def test_gpu_memory_of_others_presses_and_ours_does_not(driver: Driver) -> None:
    """A GPU full of our engines is no pressure; full of somebody else's it is, until he leaves."""
    driver.has_gpu(0, "GPU-a")
    async with watched() as watch:
        runner = Runner(watch)
        seen = []
        for util, processes in (
            (1, f"{os.getpid()}:95"),
            (2, f"{os.getpid()}:10,{OTHERS}:80"),
            (3, f"{os.getpid()}:10,{OTHERS}:5"),
        ):
            await say(driver, watch, util, processes)
            seen.append((await runner.state_after(), runner.health.gpu_state()))
        assert seen == [("healthy", "ok"), ("busy", "busy"), ("healthy", "ok")]
        # The first change: it has a GPU.
        assert [reason.partition(" others ")[0] for reason in runner.changes] == ["", "GPU memory use of", ""]


async def test_gpu_memory_that_may_be_ours_presses_nobody(driver: Driver) -> None:
    """Where NVML names no process of ours, as in a container, a full GPU may be full of us."""
    driver.has_gpu(0, "GPU-a")
    async with watched() as watch:
        runner = Runner(watch)
        await say(driver, watch, 1, f"{OTHERS}:99")
        assert await runner.state_after() == "healthy"
        assert runner.health.gpu.memory == 99.0
        assert runner.health.gpu_state() == "ok: NVML does not tell whose the memory is"


async def test_a_gpu_that_engines_fail_on_is_not_announced(driver: Driver) -> None:
    """It is there and measured, but what is sent for it would be read on the CPU: both changes are told."""
    driver.has_gpu(0, "GPU-a")
    async with watched() as watch:
        runner = Runner(watch)
        seen = []
        for works in (True, False, True):
            runner.gpu_works = works
            await runner.state_after(1)
            seen.append((runner.health.has_gpu, runner.health.gpu_state().partition(":")[0], len(runner.changes)))
        assert seen == [(True, "ok", 1), (False, "failed", 2), (True, "ok", 3)]


async def test_gpu_utilisation_counts_while_nothing_is_in_hand(driver: Driver) -> None:
    """Working, we may be the ones who use the GPU; idle for a while, it must be others."""
    driver.has_gpu(0, "GPU-a")
    async with watched() as watch:
        runner = Runner(watch)
        await say(driver, watch, 99, f"{os.getpid()}:10")
        states = []
        for idle in (0.0, 1.0, 60.0, 0.0):
            runner.idle = idle
            states.append(await runner.state_after())
        # The last: what we still finish tells nothing about the others, so they are believed to be there.
        assert states == ["healthy", "healthy", "busy", "busy"]
        runner.idle = 60.0
        await say(driver, watch, 10, f"{os.getpid()}:10")
        assert await runner.state_after() == "healthy"


async def test_a_gpu_that_does_not_tell_its_utilisation_is_not_at_zero(driver: Driver) -> None:
    """It is unknown: no pressure, and no figure."""
    driver.has_gpu(0, "GPU-a", util=99, util_rc=3)
    async with watched() as watch:
        runner = Runner(watch)
        assert await runner.state_after() == "healthy"
        assert runner.health.gpu.util is None


async def test_a_lost_gpu_makes_a_runner_unhealthy(driver: Driver) -> None:
    """It says what a person has to do; while nobody knows yet, it goes on."""
    driver.has_gpu(0, "GPU-a")
    async with watched() as watch:
        runner = Runner(watch)
        driver.say({"0.memory": 10})
        await wait_until(lambda: watch.load(()).state is GpuState.UNKNOWN, "NVML silent")
        assert await runner.state_after() == "healthy"
        assert runner.health.gpu_state() == "unknown: NVML: Timeout"
        driver.say({"0.memory": 15})
        await wait_until(lambda: watch.load(()).state is GpuState.LOST, "the GPU lost")
        assert await runner.state_after(1) == "unhealthy"
        assert runner.changes[-1] == "its GPU is lost (NVML: GPU is lost): start it anew, in a container the container"
        assert (runner.health.has_gpu, runner.health.gpu_state()) == (False, "lost: NVML: GPU is lost")


@pytest.mark.parametrize("visible", ["", "-1"])
async def test_a_gpu_runner_without_a_visible_gpu_has_none(driver: Driver, visible: str) -> None:
    """CUDA_VISIBLE_DEVICES may hide them all."""
    driver.has_gpu(0, "GPU-a")
    async with watched(visible) as watch:
        runner = Runner(watch)
        await runner.state_after(1)
        assert (runner.health.has_gpu, runner.health.gpu_state()) == (False, "absent: no GPU is visible")
