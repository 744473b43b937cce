"""A real engine in its process: RapidOCR reads what we drew."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections.abc import AsyncIterator
from io import BytesIO
from typing import Any

import psutil
import pytest
from PIL import Image

from detectsched.errors import ConfigurationError, PayloadRejected
from detectsched.ocr.pool import EnginePool
from detectsched.settings import EngineName, OcrSettings
from tests.ocr.corpus import LEGIBLE, WORDS
from tests.ocr.drawing import CHINESE, ENGLISH, MIXED, encoded, page, recall
from tests.ocr.test_process import is_gone
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.ocr,
    pytest.mark.skipif(importlib.util.find_spec("rapidocr") is None, reason="needs the extra ocr"),
]

THREE = (CHINESE, ENGLISH, MIXED)


def new_pool(**settings: Any) -> EnginePool:
    """Return a pool of one real engine."""
    ocr = OcrSettings.model_validate({"engine": EngineName.RAPIDOCR} | settings)
    return EnginePool(ocr, slots=1, max_pixels=40_000_000, task_timeout_seconds=60)


@pytest.fixture(scope="module")
async def pool() -> AsyncIterator[EnginePool]:
    """Give one engine to all tests of this file: starting takes seconds."""
    pool = new_pool()
    await pool.start()
    yield pool
    await pool.stop()


async def test_chinese_english_and_mixed_lines_are_read_where_they_are(pool: EnginePool) -> None:
    """Every character, in order, with a box around it and the engine's name and version."""
    result = await pool.read(encoded(page(THREE)))
    assert [line.text.replace(" ", "") for line in result.lines] == [line.replace(" ", "") for line in THREE]
    assert (result.width, result.height) == (720, 260)
    assert {"engine": result.engine, "version": result.version} == pool.describe()
    assert result.version.startswith("3.")
    assert "PP-OCR" in result.version
    assert result.seconds > 0
    for number, line in enumerate(result.lines):
        assert 10 <= line.box.left <= 35
        assert abs(line.box.top + line.box.bottom - 2 * (20 + 80 * number + 26)) < 30
        assert 0.9 < line.score <= 1


@pytest.mark.parametrize("name", LEGIBLE)
async def test_every_kind_of_image_is_read_completely(pool: EnginePool, name: str) -> None:
    """The engine gets what a person would see."""
    assert recall(WORDS, (await pool.read(LEGIBLE[name]())).lines) == 1.0


@pytest.mark.parametrize("size", [8, 10, 12, 14, 16])
async def test_small_print_is_read_completely(pool: EnginePool, size: int) -> None:
    """From eight pixels on."""
    image = page(THREE, size=size, step=2 * size, width=20 * size)
    assert recall(THREE, (await pool.read(encoded(image))).lines) == 1.0


async def test_frames_lie_below_each_other_on_one_plane(pool: EnginePool) -> None:
    """A hit's box tells in which frame it is: the first ends where the second begins."""
    first, second = (page([word], width=460, height=110) for word in WORDS)
    result = await pool.read(encoded(first, "TIFF", save_all=True, append_images=[second]))
    assert (result.width, result.height) == (460, 220)
    assert [line.box.top // 110 for line in result.lines] == [0, 1]


async def test_a_long_screenshot_is_read_completely_in_its_own_coordinates(pool: EnginePool) -> None:
    """Nothing is lost where tiles meet, nothing is read twice, and boxes lie where the lines were drawn."""
    lines = [f"{THREE[n % 3]} 第{n}行" for n in range(49)]
    result = await pool.read(encoded(page(lines, width=1080, height=4000)))
    assert recall(lines, result.lines) == 1.0
    assert [line.text.replace(" ", "") for line in result.lines] == [line.replace(" ", "") for line in lines]
    for number, line in enumerate(result.lines):
        assert abs(line.box.top + line.box.bottom - 2 * (20 + 80 * number + 26)) < 30


async def test_a_wide_screenshot_is_read_completely(pool: EnginePool) -> None:
    """One line of 4,000 pixels over three tiles is one line."""
    text = "".join(f"第{n}段文字内容 word{n} " for n in range(11))
    result = await pool.read(encoded(page([text], width=4000, height=120)))
    assert recall([text], result.lines) == 1.0
    assert len(result.lines) == 1


async def test_an_image_without_text_has_no_lines(pool: EnginePool) -> None:
    """Nothing is a result, not an error, from eight pixels upwards."""
    for size in ((8, 8), (400, 300), (1500, 9)):
        assert (await pool.read(encoded(Image.new("RGB", size, "white")))).lines == ()


async def test_what_cannot_be_decoded_is_rejected_and_the_engine_lives_on(pool: EnginePool) -> None:
    """Nothing of one image shows in the next one's text."""
    pids = pool.pids()
    secret = encoded(page([CHINESE] * 10), "JPEG", quality=90)
    assert recall([CHINESE] * 10, (await pool.read(secret)).lines) == 1.0
    blank = encoded(page([], height=820), "JPEG", quality=90)
    with pytest.raises(PayloadRejected) as rejected:
        await pool.read(blank[: len(blank) * 9 // 10])
    assert rejected.value.reason == "undecodable_image"
    with pytest.raises(PayloadRejected) as rejected:
        await pool.read(encoded(Image.new("1", (12_000, 12_000))))
    assert rejected.value.reason == "too_many_pixels"
    assert (await pool.read(blank)).lines == ()
    assert pool.pids() == pids


async def test_a_cancelled_read_stops_a_busy_engine_at_once(pool: EnginePool) -> None:
    """In the middle of native code; another engine reads the next image."""
    (engine,) = pool.pids()
    busy = psutil.Process(engine)
    before = sum(busy.cpu_times()[:2])
    reading = asyncio.create_task(pool.read(encoded(page([MIXED] * 60, width=2000))))
    await wait_until(lambda: sum(busy.cpu_times()[:2]) > before + 0.2, "the engine is busy")
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    await wait_until(lambda: is_gone(engine), "the engine is dead", timeout=1)
    assert recall(THREE, (await pool.read(encoded(page(THREE)))).lines) == 1.0
    assert pool.healthy


RUNNER = """
import asyncio, sys
from detectsched.ocr.process import EngineProcess
from detectsched.settings import OcrSettings
async def main():
    process = EngineProcess(OcrSettings(), slots=1, max_pixels=40_000_000)
    await process.start()
    print(process.pid, flush=True)
    await process.read(sys.stdin.buffer.read(), 60)
asyncio.run(main())
"""


async def test_a_busy_engine_dies_with_its_runner() -> None:
    """A runner that is killed leaves nobody computing for it."""
    runner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", RUNNER, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert runner.stdin is not None
    assert runner.stdout is not None
    engine = int(await runner.stdout.readline())
    busy = psutil.Process(engine)
    before = sum(busy.cpu_times()[:2])
    runner.stdin.write(encoded(page([MIXED] * 60, width=2000)))
    runner.stdin.close()
    await wait_until(lambda: sum(busy.cpu_times()[:2]) > before + 0.2, "the engine is busy")
    runner.kill()
    await runner.wait()
    await wait_until(lambda: is_gone(engine), "the engine has followed", timeout=1)


async def test_a_gpu_that_is_not_there_is_refused() -> None:
    """Never silently the CPU: the fleet would be ten times slower and nobody would know."""
    pool = new_pool(gpu=True)
    with pytest.raises(ConfigurationError, match=r"CUDA.*DETECTSCHED_OCR_GPU=false|no GPU is visible"):
        await pool.start()
    assert pool.pids() == ()


async def test_what_libraries_print_does_not_disturb_the_protocol() -> None:
    """Standard output and input of the engine's process are not the pipes."""
    code = (
        "import sys, os; from detectsched.ocr import child; from detectsched.ocr.protocol import frame, Ready;"
        "requests, answers = child.take_pipes(); print('noise'); os.system('echo more'); sys.stdin.read();"
        "child.say(answers, Ready('x', requests.read().decode()))"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    answers, noise = await process.communicate(b"hello")
    length = int.from_bytes(BytesIO(answers).read(4), "big")
    assert len(answers) == 4 + length
    assert b"hello" in answers
    assert sorted(noise.split()) == [b"more", b"noise"]
