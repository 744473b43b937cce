"""How loaded the machine is, and by whom: own work left out, a container's quota counted."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from detectsched.cgroup import Cgroups, MemoryLimit
from detectsched.clock import monotonic
from detectsched.runner.gauge import Gauge
from detectsched.runner.own import OwnProcesses, OwnUse
from detectsched.runner.probe import Load, Probe, _load, wanted_by_others
from tests.support.waiting import wait_until

BUSY = "while True: pass"
ENDED = """
import subprocess, sys
subprocess.run([sys.executable, "-c", "sum(range(20_000_000))"])
print(flush=True)
sys.stdin.read()
"""
NOBODY = OwnUse(seconds=0.0, ran=0.0, waited=0.0, memory=0, pids=frozenset())
MEMORY = [MemoryLimit(1000, 100)]


@contextmanager
def child(code: str) -> Iterator[subprocess.Popen[str]]:
    """Run Python code in a process that ends with this block."""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


async def test_what_own_processes_use_is_measured() -> None:
    """Their CPU time as the kernel counts it, by hundredths of a second and by the scheduler; and their memory."""
    with child(BUSY) as busy:
        process, own = psutil.Process(busy.pid), OwnProcesses()
        assert own.look([busy.pid]).seconds == 0.0
        before = process.cpu_times()
        await wait_until(lambda: process.cpu_times().user > before.user + 0.3, "0.3 s of CPU time")
        use = own.look([busy.pid, busy.pid])
        used = sum(process.cpu_times()[:2]) - sum(before[:2])
    assert use.seconds == pytest.approx(used, abs=0.1)
    assert use.ran == pytest.approx(used, abs=0.1)
    assert use.pids == {busy.pid}
    assert 1_000_000 < use.memory < 100_000_000


async def test_own_threads_that_wait_for_a_core_are_noticed() -> None:
    """Of two processes that both want the same core, each waits for about as long as it runs."""
    core = min(psutil.Process().cpu_affinity())
    with child(BUSY) as one, child(BUSY) as other:
        for process in (one, other):
            psutil.Process(process.pid).cpu_affinity([core])
        own = OwnProcesses()
        pids = [one.pid, other.pid]
        own.look(pids)
        await wait_until(lambda: psutil.Process(one.pid).cpu_times().user > 0.3, "0.3 s of CPU time")
        use = own.look(pids)
    # Somebody else may want that core as well, so they may wait longer, but never run longer than one core allows.
    assert use.ran < 0.7 * (use.ran + use.waited)


async def test_the_work_of_an_own_process_that_has_ended_counts() -> None:
    """An engine that was replaced between two looks did work of ours."""
    own = OwnProcesses()
    with child(ENDED) as parent:
        own.look([parent.pid])
        assert parent.stdout is not None
        parent.stdout.readline()
        assert not psutil.Process(parent.pid).children()
        use = own.look([parent.pid])
        assert use.seconds > 0.1


def test_processes_that_are_gone_use_nothing() -> None:
    """A runner that has died since its last heartbeat is no failure."""
    with child("") as process:
        process.wait()
        gone = process.pid
    assert OwnProcesses().look([gone]) == NOBODY


@pytest.mark.parametrize(
    ("used", "ran", "waited", "wanted"),
    [
        (0.0, 2.0, 0.0, 0.0),
        (0.0, 2.0, 6.0, 0.0),
        (0.3, 1.6, 0.0, 0.3),
        (1.0, 1.0, 1.0, 2.0),
        (1.33, 0.67, 1.33, 4.0),
        (0.1, 1.9, 30.0, 0.105),
        (2.0, 0.0, 0.0, 2.0),
        (0.0, 0.0, 0.0, 0.0),
    ],
    ids=["alone", "too many of us", "cores to spare", "as many as we", "twice as many", "a little", "idle", "all idle"],
)
def test_what_others_want_is_told_by_our_waiting(used: float, ran: float, waited: float, wanted: float) -> None:
    """On two cores for one second: what they would use without us, not what we left them."""
    own = OwnUse(ran, ran, waited, 0, frozenset())
    assert wanted_by_others(used, own, cores=2.0) == pytest.approx(wanted, rel=0.05)


def own(seconds: float, waited: float = 0.0) -> OwnUse:
    """Return own processes that have used this much."""
    return OwnUse(seconds, seconds, waited, 0, frozenset())


@pytest.mark.parametrize(
    ("levels", "use", "total", "foreign"),
    [
        ([(16.0, 2.0)], own(2.0), 12.5, 0.0),
        ([(16.0, 2.0), (1.0, 1.0)], own(1.0), 100.0, 6.25),
        ([(16.0, 2.0), (1.0, 1.0)], own(1.0, waited=3.0), 100.0, 6.25),
        ([(16.0, 2.0), (1.0, 1.0)], own(0.2), 100.0, 80.0),
        ([(16.0, 16.0), (1.0, 0.5)], own(0.5), 100.0, 96.9),
        ([(16.0, 9.0), (1.0, 0.5)], own(0.5, waited=0.5), 56.2, 100.0),
        ([(16.0, 1.0)], own(1.5), 6.25, 0.0),
    ],
    ids=["own", "own quota", "throttled", "neighbour in the container", "full machine", "contended", "clocks differ"],
)
def test_a_quota_counts_like_the_machine(
    levels: list[tuple[float, float]], use: OwnUse, total: float, foreign: float
) -> None:
    """A container at its quota of one core of sixteen is at 100 %, whosever work that is; the tightest counts."""
    load = _load(levels, use, MEMORY)
    assert load.cpu_percent == pytest.approx(total, abs=0.1)
    assert load.foreign_cpu_percent == pytest.approx(foreign, abs=0.1)


def second(cores: float, ours: int, theirs: int) -> float:
    """Return the load of others in a second of a fair scheduler, with so many threads that want to run all the time."""
    share = min(1.0, cores / max(1, ours + theirs))
    use = OwnUse(ours * share, ours * share, ours * (1 - share), 0, frozenset())
    return _load([(cores, (ours + theirs) * share)], use, MEMORY).foreign_cpu_percent


@pytest.mark.parametrize("cores", [2, 4, 16])
def test_a_runner_keeps_working_alone_and_gives_way_to_an_equal_load(cores: int) -> None:
    """At 100 % of all cores by its own work it goes on; an equal load of others stops it, and it resumes without them.

    While they are there it does not start again, though it has stopped adding to the load. A model of the machine,
    second by second; `detectsched bench pressure` shows the same with real processes.
    """
    gauge = Gauge("CPU load of others", 75.0)
    states = []
    for theirs in (0, cores, 0):
        for _ in range(30):
            gauge.update(second(cores, 0 if gauge.pressed else cores, theirs))
            states.append(gauge.pressed)
    assert states[:30] == [False] * 30
    began, ended = states.index(True), len(states) - states[::-1].index(True)
    assert states == [began <= number < ended for number in range(90)]
    assert 31 < began < 40
    assert 60 < ended < 65


@pytest.mark.parametrize(("ours", "theirs"), [(16, 1), (16, 3), (8, 8), (4, 11), (64, 1)])
def test_a_smaller_load_of_others_is_endured(ours: int, theirs: int) -> None:
    """On sixteen cores: less than the watermark, or beside us room for both."""
    gauge = Gauge("CPU load of others", 75.0)
    for _ in range(60):
        gauge.update(second(16, ours, theirs))
    assert not gauge.pressed


def test_memory_is_that_of_the_tightest_limit() -> None:
    """What own processes hold is left out, of the machine's and of the container's."""
    use = OwnUse(0.0, 0.0, 0.0, memory=300, pids=frozenset({1}))
    load = _load([(2.0, 0.0)], use, [MemoryLimit(10_000, 5_000), MemoryLimit(1_000, 700)])
    full = _load([(2.0, 0.0)], use, [MemoryLimit(10_000, 9_900), MemoryLimit(1_000, 700)])
    assert (full.memory_percent, full.memory_total, full.memory_available) == (99.0, 1_000, 100)
    assert load == Load(0.0, 70.0, 1_000, 300, 0.0, 47.0, frozenset({1}))


async def test_a_measurement_takes_a_while(tmp_path: Path) -> None:
    """A quota that is used up between two looks is 100 %; a look that comes at once repeats the last one."""
    (tmp_path / "cpu.max").write_text("25000 100000")
    stat = tmp_path / "cpu.stat"
    stat.write_text("usage_usec 0")
    probe = Probe(Cgroups(tmp_path, tmp_path / "none"))
    began = monotonic()
    await wait_until(lambda: monotonic() > began + 0.1, "the least time between two looks")
    stat.write_text("usage_usec 90000000")
    first = probe.measure(())
    assert first.cpu_percent == 100.0
    assert first.foreign_cpu_percent == 100.0
    assert 0 < first.memory_available < first.memory_total
    stat.write_text("usage_usec 0")
    assert probe.measure(()) is first
