"""Five hundred mixed images through a real engine, with crashes and refusals among them.

Minutes, so it is not among the usual tests: ``make soak-images``; ``SOAK_IMAGES=250`` makes it shorter.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
import statistics
from collections import Counter
from dataclasses import dataclass, field
from itertools import cycle, islice

import psutil
import pytest
from PIL import Image

from detectsched.clock import monotonic
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

_IMAGES = int(os.environ.get("SOAK_IMAGES", "500"))
_RECYCLE = 100
"""More than there are kinds: an engine meets all of them."""
_SHOW = 25
"""Images from one line of progress to the next."""
_KILL_BETWEEN = 250
"""After so many images the engine is killed while it has nothing to do, and half-way to that while it reads."""
_MB = 1024 * 1024


@dataclass
class Kind:
    """A file, and what is to become of it: read (``reason`` empty; all of ``words``) or refused."""

    name: str
    data: bytes
    reason: str = ""
    words: tuple[str, ...] = ()


@dataclass
class Life:
    """An engine process, and its resident memory in MB after each of its images."""

    pid: int
    rss: list[int] = field(default_factory=list)


def mixed() -> list[Kind]:
    """Return images of all kinds and sizes."""
    kinds = [Kind(name, make(), words=WORDS) for name, make in LEGIBLE.items()]
    kinds += [Kind(name, make(), reason) for name, (make, reason) in HOSTILE.items()]
    for side in (64, 333, 1000, 1999, 3000):
        kinds.append(Kind(f"blank {side}", encoded(Image.new("RGB", (side, side // 2), "white"))))
        kinds.append(Kind(f"long {side}", encoded(page(WORDS * 4, width=460, height=side + 700)), words=WORDS * 4))
    return kinds


async def end_of(pool: EnginePool, kind: Kind) -> str:
    """Read an image and return how that ended; it must be the right end."""
    if kind.reason:
        with pytest.raises(PayloadRejected) as rejected:
            await pool.read(kind.data)
        assert rejected.value.reason == kind.reason, kind.name
        return "refused"
    lines = (await pool.read(kind.data)).lines
    assert recall(kind.words, lines) == 1.0 if kind.words else not lines, kind.name
    return "read"


async def kill_while_it_reads(pool: EnginePool, kind: Kind) -> str:
    """End the engine in the middle of an image, as a segmentation fault does; the image fails, and no other."""
    process = psutil.Process(pool.pids()[0])
    before = process.cpu_times().user
    reading = asyncio.create_task(pool.read(kind.data))
    await wait_until(lambda: process.cpu_times().user > before + 0.1, "the engine at work", 60)
    process.send_signal(signal.SIGSEGV)
    with pytest.raises(EngineFailed) as failed:
        await reading
    assert failed.value.reason == "engine_crashed"
    return "crashed"


async def kill_while_idle(pool: EnginePool) -> None:
    """End the engine between two images, as the kernel does when memory runs out."""
    replaced = pool.replaced
    os.kill(pool.pids()[0], signal.SIGKILL)
    await wait_until(lambda: pool.replaced > replaced, "another engine", 120)


def look(pool: EnginePool, lives: list[Life]) -> None:
    """Note the memory of the engine that has just read; not while its replacement is starting beside it."""
    pids = pool.pids()
    if len(pids) == 1:
        if not lives or lives[-1].pid != pids[0]:
            lives.append(Life(pids[0]))
        lives[-1].rss.append(psutil.Process(pids[0]).memory_info().rss // _MB)


async def test_nothing_is_lost_and_memory_comes_back_to_its_plateau(capsys: pytest.CaptureFixture[str]) -> None:
    """Each image has its end, also those whose engine is killed; engines are recycled, and none is left over."""
    settings = OcrSettings(engine=EngineName.RAPIDOCR, recycle_after_images=_RECYCLE)
    pool = EnginePool(settings, slots=1, max_pixels=40_000_000, task_timeout_seconds=300)
    kinds = mixed()
    largest = kinds[-1]
    ends: Counter[str] = Counter()
    lives: list[Life] = []
    own: list[int] = []
    await pool.start()
    began = monotonic()
    try:
        for number, kind in enumerate(islice(cycle(kinds), _IMAGES), 1):
            ends[await end_of(pool, kind)] += 1
            look(pool, lives)
            own.append(psutil.Process().memory_info().rss // _MB)
            if number % _KILL_BETWEEN == 0:
                await kill_while_idle(pool)
            elif number % _KILL_BETWEEN == _KILL_BETWEEN // 2:
                ends[await kill_while_it_reads(pool, largest)] += 1
                assert await end_of(pool, largest) == "read"
            if number % _SHOW == 0:
                with capsys.disabled():
                    print(f"{number} images, {monotonic() - began:.0f} s: {dict(ends)}, engine {lives[-1].rss[-1]} MB, "
                          f"replaced {pool.replaced}, this process {own[-1]} MB", flush=True)  # fmt: skip
        assert len(pool.pids()) <= 2
    finally:
        await pool.stop()
    assert pool.pids() == ()
    assert ends.total() == _IMAGES + (_IMAGES + _KILL_BETWEEN // 2) // _KILL_BETWEEN
    judge_memory(lives, own, replaced=pool.replaced, cycle_of=len(kinds), capsys=capsys)


def judge_memory(
    lives: list[Life], own: list[int], *, replaced: int, cycle_of: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """See that engines that read the same kinds need the same memory, and that what runs them does not grow.

    Args:
        lives: the engines.
        own: resident memory of this process in MB after each image.
        replaced: engines that were replaced, as the pool counts.
        cycle_of: images after which the kinds come again; an engine that has read so many has seen them all.
        capsys: to show the figures.
    """
    whole = [life for life in lives if len(life.rss) >= cycle_of]
    assert whole
    peaks = [max(life.rss) for life in whole]
    ends = [int(statistics.median(life.rss[-10:])) for life in whole]
    firsts = [life.rss[0] for life in lives]
    growth = own[-1] - own[len(own) // 5]
    with capsys.disabled():
        print(f"engines: {len(lives)}, after the first image {firsts} MB; of those that read every kind: "
              f"peaks {peaks}, at the end {ends} MB; this process grew by {growth} MB")  # fmt: skip
    assert replaced >= _IMAGES // _RECYCLE - 1
    assert max(peaks) < 1.3 * min(peaks)
    assert max(firsts) < 2 * min(firsts)
    assert growth < 100
