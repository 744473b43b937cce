"""What an image climbs when memory or a GPU fails it, and what becomes of the GPU; a stand-in child fails at will."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from detectsched.detection import Box, Line
from detectsched.errors import ConfigurationError, EngineFailed, EngineUnavailable, PayloadRejected
from detectsched.ocr.examine import examine
from detectsched.ocr.pool import EnginePool
from detectsched.ocr.protocol import Broken, Done, Read
from detectsched.settings import OcrSettings
from tests.ocr.drawing import encoded, page
from tests.ocr.test_process import FAKE
from tests.support.waiting import wait_until

Start = Callable[..., Awaitable[EnginePool]]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Start pools of fake engines on fake GPUs."""
    pools: list[EnginePool] = []

    async def start(*options: str | Path, slots: int = 1, gpu: bool = True, **settings: float) -> EnginePool:
        pool = EnginePool(
            OcrSettings.model_validate({"gpu": gpu} | settings),
            slots=slots,
            max_pixels=1000,
            task_timeout_seconds=60.0,
            command=(*FAKE, *map(str, options)),
            gpu_uuids=("GPU-a", "GPU-b") if gpu else (),
        )
        pools.append(pool)
        await pool.start()
        return pool

    yield start
    for pool in pools:
        await pool.stop()
        assert pool.pids() == ()


async def where(pool: EnginePool, image: str = "where") -> tuple[str, int]:
    """Read, and return on what device and how it was read, and by which process."""
    (line,) = (await pool.read(image.encode())).lines
    how, _, pid = line.text.rpartition(" ")
    return how, int(pid)


@pytest.mark.parametrize("failure", ["oom", "cuda"])
async def test_the_second_rung_is_a_fresh_process_that_is_thrifty(start: Start, failure: str) -> None:
    """The first one is gone: after such an error nothing about it can be relied on."""
    pool = await start()
    _, first = await where(pool)
    how, second = await where(pool, f"{failure}_unless:thrifty")
    assert how == "gpu thrifty"
    assert second != first
    assert await where(pool) == ("gpu", second)


@pytest.mark.parametrize("failure", ["oom", "cuda"])
async def test_the_third_rung_is_the_cpu_for_this_image_alone(start: Start, failure: str) -> None:
    """The next image is read on the GPU again, by a process that has read its test image there."""
    pool = await start()
    assert (await where(pool, f"{failure}_unless:cpu"))[0] == "cpu thrifty"
    assert (await where(pool))[0] == "gpu"
    assert pool.on_gpu
    await wait_until(lambda: len(pool.pids()) == 1, "the engine on the CPU is gone")


async def test_who_fails_on_every_rung_is_tried_another_time(start: Start) -> None:
    """The machine may have had no memory for anybody; how often it is tried again, attempts decide."""
    pool = await start()
    with pytest.raises(EngineFailed) as failed:
        await pool.read(b"oom_unless:never")
    assert failed.value.reason == "out_of_memory"
    assert (await where(pool))[0] == "gpu"


@pytest.mark.parametrize("gpu", [True, False])
async def test_who_outgrows_an_engine_on_every_rung_is_too_large_for_good(start: Start, gpu: bool) -> None:
    """It would do so each time."""
    pool = await start(gpu=gpu, max_memory_mb=512)
    with pytest.raises(PayloadRejected) as rejected:
        await pool.read(b"grow_and_hang:600")
    assert (rejected.value.reason, "512 MB" in rejected.value.detail) == ("too_large", True)
    assert (await where(pool))[0] == ("gpu" if gpu else "cpu")


async def test_without_a_gpu_there_are_two_rungs(start: Start) -> None:
    """As is, and thrifty in a fresh process."""
    pool = await start(gpu=False)
    assert (await where(pool, "oom_unless:thrifty"))[0] == "cpu thrifty"
    with pytest.raises(EngineFailed):
        await pool.read(b"oom_unless:gpu")
    assert pool.replaced >= 2


async def test_a_crash_does_not_climb(start: Start) -> None:
    """It costs its task an attempt, and twice makes the image poison; on every rung it would cost a process."""
    pool = await start()
    with pytest.raises(EngineFailed) as failed:
        await pool.read(b"crash")
    assert failed.value.reason == "engine_crashed"
    assert (await where(pool))[0] == "gpu"
    assert pool.replaced == 1


async def test_a_process_that_dies_of_the_gpu_is_told_from_one_that_dies_of_the_image(start: Start) -> None:
    """PaddleOCR issue 15118: the exception passes nobody's hands and ends the process."""
    pool = await start(gpu=False)
    with pytest.raises(EngineFailed) as failed:
        await pool.read(b"die_saying:what():  (External) CUDA error(700), an illegal memory access was encountered.")
    assert failed.value.reason == "gpu_error"


async def test_a_gpu_that_does_not_come_back_is_left_for_the_cpu_and_probed(start: Start, tmp_path: Path) -> None:
    """Nobody waits for it meanwhile; the change is told both times."""
    gone = tmp_path / "gone"
    pool = await start("--no-gpu-if", gone, gpu_retry_seconds=0.3)
    gone.touch()
    assert (await where(pool, "cuda_unless:cpu"))[0] == "cpu thrifty"
    assert not pool.on_gpu
    assert pool.slots_off_gpu == 1
    assert pool.healthy
    assert (await where(pool))[0] == "cpu"
    gone.unlink()
    await wait_until(lambda: pool.on_gpu, "the probe has found the GPU again")
    assert (await where(pool))[0] == "gpu"


async def test_probes_that_fail_cost_nothing_and_become_rarer(start: Start, tmp_path: Path) -> None:
    """The engine on the CPU stays; each pause is twice the last."""
    gone, starts = tmp_path / "gone", tmp_path / "starts"
    pool = await start("--no-gpu-if", gone, "--starts", starts, gpu_retry_seconds=0.05)
    gone.touch()
    await where(pool, "cuda_unless:cpu")
    _, worker = await where(pool)
    before = starts.stat().st_size
    await wait_until(lambda: starts.stat().st_size >= before + 3, "three probes have failed")
    assert await where(pool) == ("cpu", worker)
    assert pool._slots[0]._gpu_losses >= 3


async def test_a_gpu_that_passes_its_test_and_fails_every_image_is_given_up(start: Start) -> None:
    """Three images in a row: from then on images are read on the CPU at once, without climbing."""
    pool = await start(gpu_retry_seconds=600)
    for _ in range(2):
        assert (await where(pool, "cuda_unless:cpu"))[0] == "cpu thrifty"
    await wait_until(lambda: not pool.on_gpu, "the GPU is given up")
    assert (await where(pool, "cuda_unless:cpu"))[0] == "cpu"


async def test_one_image_that_the_gpu_cannot_read_does_not_cost_the_gpu(start: Start) -> None:
    """Images between that it reads begin the count anew."""
    pool = await start()
    for _ in range(3):
        assert (await where(pool, "oom_unless:cpu"))[0] == "cpu thrifty"
        assert (await where(pool))[0] == "gpu"
    assert pool.on_gpu


async def test_a_gpu_that_is_not_there_at_the_start_is_refused(start: Start, tmp_path: Path) -> None:
    """Who asked for a GPU and gets a CPU would not know why it is slow."""
    gone = tmp_path / "gone"
    gone.touch()
    with pytest.raises(ConfigurationError, match="the GPU does not answer"):
        await start("--no-gpu-if", gone)


async def test_an_innocent_neighbour_goes_on(start: Start, tmp_path: Path) -> None:
    """Another slot's failures and climbs are its own."""
    pool = await start(slots=2)
    gate = tmp_path / "gate"
    innocent = asyncio.create_task(pool.read(f"wait_for:{gate}".encode()))
    await wait_until(Path(f"{gate}.seen").exists, "the innocent one is being read")
    assert (await where(pool, "oom_unless:cpu"))[0] == "cpu thrifty"
    with pytest.raises(EngineFailed):
        await pool.read(b"crash")
    gate.touch()
    assert (await innocent).lines


async def test_each_slot_sees_its_own_gpu_by_uuid(start: Start) -> None:
    """An index may mean another GPU to CUDA than to NVML; on the CPU rung none is named."""
    pool = await start(slots=2)
    texts = [result.lines[0].text for result in await asyncio.gather(*(pool.read(b"gpu_uuid") for _ in range(2)))]
    assert sorted(texts) == ["GPU-a", "GPU-b"]


async def test_no_engine_at_all_is_not_the_images_fault(start: Start, tmp_path: Path) -> None:
    """It is given back; no attempt is spent."""
    flag = tmp_path / "flag"
    pool = await start("--unfit-if", flag, gpu=False, start_timeout_seconds=1.0)
    flag.touch()
    with pytest.raises(EngineUnavailable):
        await pool.read(b"oom_unless:thrifty")


# Inside the child -----------------------------------------------------------------------------------------------------


class Weak:
    """An engine without much memory; ``spoilt`` reads nothing after its first failure."""

    name, version = "weak", "1"

    def __init__(self, error: Exception, *, spoilt: bool = False) -> None:
        self.error, self.spoilt, self.failed = error, spoilt, False
        self.calls: list[bool] = []

    def read(self, image: NDArray[np.uint8], *, thrifty: bool = False) -> tuple[Line, ...]:
        """Fail unless thrifty; the test image is small enough."""
        small = image.shape[0] < 200
        self.calls.append(thrifty)
        if not thrifty and not small:
            self.failed = True
            raise self.error
        text = "" if self.spoilt and self.failed else "8421 ready"
        return (Line(text, Box(0, 0, 9, 9), 1.0),) if text else ()


IMAGE = encoded(page([], height=400))
OOM = RuntimeError("Failed to allocate memory for requested buffer of size 939524096")


def test_the_first_rung_is_the_same_process_being_thrifty() -> None:
    """Then it must read its test image, before anybody relies on it again."""
    engine = Weak(OOM)
    answer = examine(engine, Read(1, IMAGE), OcrSettings(), 10**6)
    assert isinstance(answer, Done)
    assert engine.calls == [False, True, False]


def test_an_engine_that_reads_nothing_after_a_failure_is_found_out() -> None:
    """PaddleOCR issue 13145: the GPU's memory was full, and results were empty from then on."""
    answer = examine(Weak(OOM, spoilt=True), Read(1, IMAGE), OcrSettings(), 10**6)
    assert isinstance(answer, Broken)
    assert answer.reason == "out_of_memory"
    assert "read ''" in answer.detail


@pytest.mark.parametrize(
    ("error", "reason"),
    [(OSError("(External) CUDA error(700), ..."), "gpu_error"), (ValueError("shapes"), "engine_error")],
)
def test_other_failures_are_not_tried_in_the_same_process(error: Exception, reason: str) -> None:
    """What CUDA has spoilt stays spoilt until the process ends."""
    engine = Weak(error)
    answer = examine(engine, Read(7, IMAGE), OcrSettings(), 10**6)
    assert isinstance(answer, Broken)
    assert (answer.serial, answer.reason, engine.calls) == (7, reason, [False])
