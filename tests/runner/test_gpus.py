"""GPUs chosen by index or UUID, through the real NVML binding and a fake NVML library."""

from __future__ import annotations

import os

import pytest

from detectsched.errors import ConfigurationError
from detectsched.ocr.process import EngineProcess
from detectsched.runner.gpu import GpuWatch
from detectsched.runner.gpus import chosen_gpus
from detectsched.runner.machinery import engine_slots
from detectsched.settings import OcrSettings, Settings, load_settings
from tests.ocr.test_process import FAKE
from tests.support.nvml import Driver
from tests.support.waiting import wait_until

A, B, C = "GPU-aaaa-1", "GPU-aabb-2", "GPU-cccc-3"


@pytest.fixture
def three(driver: Driver) -> Driver:
    """Give a machine with three GPUs."""
    for number, uuid in enumerate((A, B, C)):
        driver.has_gpu(number, uuid)
    return driver


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize(
    ("wanted", "visible", "chosen"),
    [
        ((), None, []),
        (("0", "1"), None, [A, B]),
        (("2", "0"), None, [C, A]),
        (("0",), "2,1", [C]),
        (("GPU-cccc-3", "1"), None, [C, B]),
        (("GPU-aab",), f"{C},{B}", [B]),
    ],
)
def test_gpus_are_chosen_among_the_visible(wanted: tuple[str, ...], visible: str | None, chosen: list[str]) -> None:
    """Whatever they are called by, they are passed on by UUID."""
    assert chosen_gpus(wanted, visible) == chosen


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize(
    ("wanted", "visible", "says"),
    [
        (("3",), None, "'3' names no single GPU; visible are, from index 0: GPU-aaaa-1, GPU-aabb-2, GPU-cccc-3"),
        (("1",), "2", "from index 0: GPU-cccc-3"),
        (("GPU-aa",), None, "no single GPU"),
        (("0", A), None, "a GPU that was named before"),
        (("0",), "", "from index 0: none"),
    ],
)
def test_a_gpu_that_is_not_there_is_refused(wanted: tuple[str, ...], visible: str | None, says: str) -> None:
    """Never another one instead."""
    with pytest.raises(ConfigurationError, match=says):
        chosen_gpus(wanted, visible)


def test_without_a_driver_none_can_be_chosen(driver: Driver) -> None:
    """The message says what to do."""
    driver.say({"init": 9})
    with pytest.raises(ConfigurationError, match=r"NVML does not answer.*CUDA_VISIBLE_DEVICES"):
        chosen_gpus(("0",), None)


def test_there_is_at_least_one_engine_on_each_gpu() -> None:
    """More, where more slots are wanted; none is named twice, or for nothing."""
    assert engine_slots(Settings()) == 1
    assert engine_slots(Settings(ocr=OcrSettings(gpu=True, gpus=("0", "1")))) == 2
    for wrong in ({"gpus": ("0",)}, {"gpu": True, "gpus": ("0", "0")}):
        with pytest.raises(ConfigurationError, match=r"ocr\.gpus names"):
            load_settings(ocr=wrong)


async def test_an_engine_is_worn_when_its_share_of_the_gpu_has_grown(driver: Driver) -> None:
    """PaddleOCR issue 13784: memory on the GPU only grows. Where NVML shows whose it is, the process is replaced."""
    mb = 1024 * 1024
    watch = GpuWatch(None, sample_seconds=0.005)
    settings = OcrSettings(gpu=True, recycle_gpu_growth_mb=100)
    engine = EngineProcess(settings, slots=1, max_pixels=1000, command=FAKE, gpu_memory_of=watch.held_by)
    await engine.start()
    pid = engine.pid
    driver.has_gpu(0, A, processes=f"{pid}:{500 * mb},{os.getpid()}:7")
    await watch.start()
    try:
        assert pid is not None
        await wait_until(lambda: watch.held_by(pid) == 500 * mb, "NVML tells what it holds")
        await engine.read(b"say:first", 60)
        assert not engine.worn
        driver.has_gpu(0, A, processes=f"{pid}:{599 * mb}")
        await wait_until(lambda: watch.held_by(pid) == 599 * mb, "it has grown")
        assert not engine.worn
        driver.has_gpu(0, A, processes=f"{pid}:{601 * mb}")
        await wait_until(lambda: engine.worn, "it has grown too much")
        driver.say({"0.processes_rc": 4})
        await wait_until(lambda: watch.held_by(pid) is None, "NVML tells no more")
        assert not engine.worn
    finally:
        await watch.stop()
        await engine.stop()
