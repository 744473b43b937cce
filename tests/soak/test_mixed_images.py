"""Five hundred mixed images through a real engine, with crashes and refusals among them.

Minutes, so it is not among the usual tests: `make soak-images`.
"""

from __future__ import annotations

import importlib.util
import os
import signal
from itertools import cycle, islice

import psutil
import pytest
from PIL import Image

from detectsched.errors import EngineFailed, PayloadRejected
from detectsched.ocr.pool import EnginePool
from detectsched.settings import EngineName, OcrSettings
from tests.ocr.corpus import HOSTILE, LEGIBLE, WORDS
from tests.ocr.drawing import encoded, page, recall
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.soak,
    pytest.mark.ocr,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(importlib.util.find_spec("rapidocr") is None, reason="needs the extra ocr"),
]

_IMAGES = 500
_RECYCLE = 120
_MB = 1024 * 1024


def mixed() -> list[tuple[str, bytes, str]]:
    """Return images of all kinds and sizes: name, file, and the reason for which it is refused."""
    kinds = [(name, make(), "") for name, make in LEGIBLE.items()]
    kinds += [(name, make(), reason) for name, (make, reason) in HOSTILE.items()]
    for side in (64, 333, 1000, 1999, 3000):
        kinds.append((f"blank {side}", encoded(Image.new("RGB", (side, side // 2), "white")), ""))
        kinds.append((f"long {side}", encoded(page(WORDS * 4, width=460, height=side + 700)), ""))
    return kinds


async def test_nothing_is_lost_and_memory_comes_back_to_its_plateau() -> None:
    """Each image has its end, also those whose engine is killed; engines are recycled, and none is left over."""
    settings = OcrSettings(engine=EngineName.RAPIDOCR, recycle_after_images=_RECYCLE)
    pool = EnginePool(settings, slots=1, max_pixels=40_000_000, task_timeout_seconds=300)
    await pool.start()
    ends: dict[str, int] = {}
    peaks: list[int] = []
    try:
        for number, (name, data, reason) in enumerate(islice(cycle(mixed()), _IMAGES)):
            try:
                lines = (await pool.read(data)).lines
            except PayloadRejected as rejected:
                end = rejected.reason
                assert end == reason, name
            except EngineFailed as failed:
                end = failed.reason
            else:
                end = "read"
                assert not reason, name
                if name in LEGIBLE:
                    assert recall(WORDS, lines) == 1.0, name
            ends[end] = ends.get(end, 0) + 1
            if number % 150 == 149:
                # As the kernel does when memory runs out, between two images.
                replaced = pool.replaced
                os.kill(pool.pids()[0], signal.SIGKILL)
                await wait_until(lambda before=replaced: pool.replaced > before, "another engine", 120)  # type: ignore[misc]
            peaks.append(sum(psutil.Process(pid).memory_info().rss for pid in pool.pids()))
        assert sum(ends.values()) == _IMAGES
        assert pool.replaced >= _IMAGES // (2 * _RECYCLE)
        # The last fifth is no larger than the second, but for what differs from image to image.
        fifth = _IMAGES // 5
        assert max(peaks[-fifth:]) < max(peaks[fifth : 2 * fifth]) + 400 * _MB
        assert len(pool.pids()) <= 2
    finally:
        await pool.stop()
    assert pool.pids() == ()
