"""GPUs through the real NVML binding and a fake NVML library: nothing here says anything about a real GPU."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pynvml
import pytest

from detectsched.runner.gpu import GpuLoad, GpuState, GpuWatch, load_of
from detectsched.runner.nvml import GpuSample, Nvml
from detectsched.runner.visible import number_gpus_by_bus, visible_uuids
from tests.support.contract import check_service_contract
from tests.support.nvml import Driver
from tests.support.waiting import wait_until

A, B, C = "GPU-aaaa-1", "GPU-aabb-2", "GPU-cccc-3"
INSTANCE = "MIG-dddd-4"


@asynccontextmanager
async def watching(stale_seconds: float = 10.0) -> AsyncIterator[GpuWatch]:
    """Watch all GPUs, a hundred times a second."""
    watch = GpuWatch(None, sample_seconds=0.01, stale_seconds=stale_seconds)
    await watch.start()
    try:
        yield watch
    finally:
        await watch.stop()


async def reached(watch: GpuWatch, state: GpuState) -> GpuLoad:
    """Wait until a watch says this."""
    await wait_until(lambda: watch.load(()).state is state, lambda: f"{state}, not {watch.load(())}")
    return watch.load(())


async def further_samples(watch: GpuWatch, number: int) -> None:
    """Wait until it has sampled so many times more."""
    seen: list[object] = []

    def enough() -> bool:
        if not seen or watch._sampler.seen is not seen[-1]:
            seen.append(watch._sampler.seen)
        return len(seen) > number

    await wait_until(enough, "more samples")


@pytest.mark.parametrize(
    ("visible", "shown"),
    [
        (None, [A, B, C]),
        ("", []),
        ("-1", []),
        ("NoDevFiles", []),
        ("1", [B]),
        ("2, 0", [C, A]),
        ("0,7,1", [A]),
        ("0,-1,1", [A]),
        ("0,0", [A]),
        (B, [B]),
        ("GPU-c", [C]),
        ("GPU-aa", []),
        ("GPU-zz,0", []),
        (f"{INSTANCE},1", [INSTANCE, B]),
    ],
)
def test_gpus_are_shown_as_cuda_shows_them(visible: str | None, shown: list[str]) -> None:
    """Indices, beginnings of UUIDs and instances; what is wrong hides itself and all after it."""
    assert visible_uuids(visible, [A, B, C]) == shown


def test_cuda_is_told_to_number_as_nvml_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless a person has decided otherwise."""
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
    number_gpus_by_bus()
    child = subprocess.run(["printenv", "CUDA_DEVICE_ORDER"], check=True, capture_output=True, text=True)
    assert child.stdout.strip() == "PCI_BUS_ID"
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
    number_gpus_by_bus()
    assert (
        subprocess.run(["printenv", "CUDA_DEVICE_ORDER"], check=True, capture_output=True).stdout == b"FASTEST_FIRST\n"
    )


@pytest.mark.parametrize(
    ("visible", "used", "shown"),
    [
        (None, None, [A, B, INSTANCE]),
        (None, 1, [A]),
        ("1,0", 1, [B]),
        (B, None, [B]),
        ("2", None, [INSTANCE]),
        (INSTANCE, None, [INSTANCE]),
    ],
)
def test_the_gpus_in_use_are_resolved_by_uuid(
    driver: Driver, visible: str | None, used: int | None, shown: list[str]
) -> None:
    """A divided GPU stands for its first instance, by whichever of its names it is used."""
    driver.has_gpu(0, A)
    driver.has_gpu(1, B)
    driver.has_gpu(2, C, mig=5)
    driver.has_instance(5, INSTANCE)
    session = Nvml(visible, used)
    assert [sample.uuid for sample in session.sample()] == shown
    session.close()


def test_a_lost_gpu_that_is_not_ours_does_not_matter(driver: Driver) -> None:
    """It keeps its place in the order, and only who uses it hears of it."""
    driver.has_gpu(0, A, handle=15)
    driver.has_gpu(1, B, util=40)
    session = Nvml("1", None)
    assert [sample.util for sample in session.sample()] == [40.0]
    session.close()
    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        Nvml("0", None)


def test_what_a_gpu_does_not_tell_is_unknown_and_not_zero(driver: Driver) -> None:
    """The utilisation of an instance, the memory of a GPU that shares the machine's, processes that are not shown."""
    driver.has_gpu(0, A, used=10, reserved=20, util=50, processes="7:4,8:6")
    driver.has_gpu(1, B, mig=5)
    driver.has_instance(5, INSTANCE, used=30)
    driver.has_gpu(2, C, memory=3, processes_rc=4)
    session = Nvml(None, None)
    assert session.sample() == [
        GpuSample(A, memory=(80, 10), memory_of={7: 4, 8: 6}, util=50.0),
        GpuSample(INSTANCE, memory=(100, 30), memory_of={}, util=None),
        GpuSample(C, memory=None, memory_of=None, util=0.0),
    ]
    session.close()


def test_a_driver_older_than_the_binding_is_asked_in_the_old_way(driver: Driver) -> None:
    """Its memory figure includes what it keeps for itself, and it has no list of processes that we can read."""
    driver.has_gpu(0, A, used=10, reserved=20, memory_v2=13, processes_rc=13)
    session = Nvml(None, None)
    assert session.sample() == [GpuSample(A, memory=(100, 30), memory_of=None, util=0.0)]
    session.close()


def test_the_busiest_gpu_counts_and_own_memory_does_not() -> None:
    """Of each figure the highest that is known; what this host's runners hold is left out."""
    full_of_us = GpuSample(A, memory=(100, 90), memory_of={1: 60, 2: 10, 9: 20}, util=30.0)
    instance = GpuSample(INSTANCE, memory=(200, 80), memory_of={1: 20, 9: 60}, util=None)
    silent = GpuSample(C, memory=None, memory_of=None, util=70.0)
    assert load_of([full_of_us, instance, silent], {1, 2}) == GpuLoad(
        GpuState.OK, "", 3, util=70.0, memory=90.0, foreign_memory=30.0
    )
    assert load_of([instance], {1}).util is None


@pytest.mark.parametrize("memory_of", [None, {}, {4711: 90}])
def test_memory_that_may_be_ours_is_not_called_foreign(memory_of: dict[int, int] | None) -> None:
    """In a container NVML shows no processes, or numbers that mean nothing inside: then nobody can tell."""
    load = load_of([GpuSample(A, memory=(100, 90), memory_of=memory_of, util=0.0)], {1, 2})
    assert (load.memory, load.foreign_memory) == (90.0, None)
    assert "whose" in load.note


@pytest.mark.parametrize("code", [9, 12, 18, 999])
async def test_without_a_driver_there_is_no_gpu(driver: Driver, code: int) -> None:
    """Whatever nvmlInit answers, there is no GPU and no exception; a driver that comes later is noticed."""
    driver.say({"init": code})
    async with watching() as watch:
        await wait_until(lambda: watch.load(()).note, "a first answer")
        assert watch.load(()) == GpuLoad(GpuState.ABSENT, f"NVML: {pynvml.NVMLError(code)}")
        driver.has_gpu(0, A, util=5)
        driver.say({"init": 0})
        assert (await reached(watch, GpuState.OK)).util == 5.0


async def test_without_a_visible_gpu_there_is_none(driver: Driver) -> None:
    """A library without a GPU is no failure."""
    async with watching() as watch:
        await wait_until(lambda: watch.load(()).note, "a first answer")
        assert watch.load(()) == GpuLoad(GpuState.ABSENT, "no GPU is visible")


@pytest.mark.parametrize(
    ("answers", "state"),
    [
        ({"0.memory": 15}, GpuState.LOST),
        ({"0.util_rc": 999}, GpuState.LOST),
        ({"0.memory": 999, "init": 999}, GpuState.LOST),
        ({"0.memory": 999, "init": 18}, GpuState.LOST),
        ({"0.memory": 10}, GpuState.UNKNOWN),
    ],
)
async def test_a_gpu_that_fails_again_and_again_is_lost(
    driver: Driver, answers: dict[str, object], state: GpuState
) -> None:
    """Lost and Unknown in a row mean lost, a time-out does not; an answer ends either."""
    driver.has_gpu(0, A)
    async with watching() as watch:
        await reached(watch, GpuState.OK)
        driver.say(answers)
        assert (await reached(watch, GpuState.UNKNOWN)).available == 1
        await further_samples(watch, 10)
        load = watch.load(())
        assert (load.state, load.note.startswith("NVML: ")) == (state, True)
        driver.say({"init": 0, "0.memory": 0, "0.util_rc": 0})
        await reached(watch, GpuState.OK)


async def test_a_driver_that_hangs_stops_nobody(driver: Driver) -> None:
    """The last sample is believed for a while, then the load is unknown; asking for it never waits."""
    driver.has_gpu(0, A)
    async with watching(stale_seconds=0.2) as watch:
        await reached(watch, GpuState.OK)
        driver.say({"hang": 1})
        assert "not answered" in (await reached(watch, GpuState.UNKNOWN)).note
        driver.say({"hang": 0})
        await reached(watch, GpuState.OK)


async def test_the_watch_keeps_the_contract_of_services(driver: Driver) -> None:
    """One thread while it runs, none when it does not."""
    driver.has_gpu(0, A)
    watch = GpuWatch(None, sample_seconds=0.001)
    await check_service_contract(watch, lambda: any(thread.name == "nvml" for thread in threading.enumerate()))


async def test_a_bug_in_the_thread_ends_the_service(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not swallowed."""
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", None)
    async with watching() as watch:
        with pytest.raises(TypeError):
            await asyncio.wait_for(watch.wait(), 5)


_DRIVERLESS = """
import asyncio, ctypes, sys
import pynvml
from detectsched.runner.gpu import GpuWatch
from detectsched.settings import LogFormat, LogSettings
from detectsched.telemetry import configure_logging
try:
    ctypes.CDLL("libnvidia-ml.so.1")
except OSError:
    pass
else:
    sys.exit(77)
configure_logging(LogSettings(format=LogFormat.JSON), "test")

tries, init = [], pynvml.nvmlInit

def noted():
    tries.append(None)
    init()

pynvml.nvmlInit = noted

async def main():
    watch = GpuWatch(None, sample_seconds=0.001)
    await watch.start()
    while len(tries) < 5:
        await asyncio.sleep(0.001)
    await watch.stop()
    load = watch.load(())
    print(load.available, load.util, load.state.value, load.note)

asyncio.run(main())
"""


def test_on_a_machine_without_a_driver_there_is_no_gpu() -> None:
    """No stand-in here: without the library there is no GPU, one line in the log, and no exception."""
    run = subprocess.run([sys.executable, "-c", _DRIVERLESS], check=False, capture_output=True, text=True, timeout=60)
    if run.returncode == 77:
        pytest.skip("this machine has an NVIDIA driver")
    assert run.stdout == "0 None absent NVML: NVML Shared Library Not Found\n", run.stderr
    assert run.stderr.count("\n") == 1
