"""When a runner takes new work: smoothed foreign load with hysteresis, own work left out."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from detectsched.clock import monotonic
from detectsched.runner.health import Gauge, Health
from detectsched.runner.probe import Probe
from detectsched.settings import RunnerSettings


@pytest.fixture
def busy_child() -> Iterator[int]:
    """Give the pid of a child that keeps one core busy."""
    child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    yield child.pid
    child.kill()
    child.wait()


def test_a_gauge_waits_for_a_lasting_load_and_does_not_flap() -> None:
    """One high sample does not press it; a lasting one does; it is released well below the watermark only."""
    gauge = Gauge("load", 75.0)
    pressed = []
    for samples in ([100], [100] * 10, [70] * 30, [60] * 30):
        for sample in samples:
            gauge.update(sample)
        pressed.append(gauge.pressed)
    assert pressed == [False, True, True, False]


def test_own_work_is_not_foreign(busy_child: int) -> None:
    """Just the CPU time that the given processes have used is left out."""
    child = psutil.Process(busy_child)
    ours, theirs = Probe(), Probe()
    theirs.measure(())
    began, before = monotonic(), child.cpu_times().user
    ours.measure({busy_child})
    while child.cpu_times().user < before + 0.3:
        os.sched_yield()
    used = child.cpu_times().user - before
    mine, other = ours.measure({busy_child}), theirs.measure(())
    share = 100 * used / (monotonic() - began) / (psutil.cpu_count() or 1)
    assert other.foreign_cpu_percent == other.cpu_percent
    assert mine.cpu_percent - mine.foreign_cpu_percent == pytest.approx(share, rel=0.3)
    assert mine.foreign_memory_percent < mine.memory_percent
    assert 0 < mine.memory_available < mine.memory_total


async def test_the_state_says_why() -> None:
    """A runner whose engine is not ready, or that stops, is not fetching, and says so at once."""
    changes: list[str] = []
    ready = [True]
    health = Health(
        RunnerSettings(cpu_high_percent=100, memory_high_percent=100),
        engine_ready=lambda: ready[0],
        sibling_pids=lambda: (),
        on_change=lambda: changes.append(health.reason),
        uses_gpu=False,
    )
    assert await health.run_once() == "healthy"
    assert health.may_fetch()
    ready[0] = False
    assert await health.run_once() == "busy"
    assert not health.may_fetch()
    ready[0] = True
    await health.run_once()
    health.announce_stop()
    assert not health.may_fetch()
    assert changes == ["its engine is not ready", "", "it is shutting down"]
