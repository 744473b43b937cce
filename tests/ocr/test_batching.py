"""Micro-batches: who is read with whom, and that nobody pays for another's image."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from detectsched.detection import Box, EngineResult, Line
from detectsched.errors import EngineFailed, PayloadRejected
from detectsched.ocr.batching import Batcher, bucket_of
from detectsched.ocr.engine import BatchEngine
from detectsched.ocr.examine import examine_many
from detectsched.ocr.pool import EnginePool
from detectsched.ocr.protocol import Broken, Done, DoneMany, ReadMany, Rejected
from detectsched.settings import OcrSettings
from tests.ocr.drawing import encoded
from tests.ocr.test_process import FAKE
from tests.support.waiting import wait_until

Start = Callable[..., Awaitable[EnginePool]]


class Reader:
    """Reads batches, when it is let."""

    def __init__(self) -> None:
        self.batches: list[list[bytes]] = []
        self.let = asyncio.Event()
        self.cancelled = 0

    async def __call__(self, images: Sequence[bytes]) -> list[EngineResult | Exception]:
        """Answer with each image's own text."""
        self.batches.append(list(images))
        try:
            await self.let.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return [
            PayloadRejected("bad", "bad") if image == b"bad" else EngineResult("e", "1", (), len(image), 0, 0.0)
            for image in images
        ]


def batcher(reader: Reader, most: int = 3, wait_seconds: float = 60.0) -> Batcher:
    """Return one whose buckets are first bytes; X is read alone."""
    return Batcher(
        reader, most=most, wait_seconds=wait_seconds, bucket=lambda data: None if data[:1] == b"X" else (data[0], 0)
    )


def reads(gathering: Batcher, *images: bytes) -> list[asyncio.Task[EngineResult]]:
    """Begin to read images."""
    return [asyncio.create_task(gathering.read(image)) for image in images]


async def test_a_batch_is_read_when_it_is_full() -> None:
    """Those of a bucket together, in their order; everybody gets his own answer."""
    reader = Reader()
    reader.let.set()
    results = await asyncio.gather(*reads(batcher(reader), b"a1", b"b", b"a22", b"a333", b"bb", b"bbb"))
    assert reader.batches == [[b"a1", b"a22", b"a333"], [b"b", b"bb", b"bbb"]]
    assert [result.width for result in results] == [2, 1, 3, 4, 2, 3]


async def test_a_batch_is_read_when_the_first_has_waited_long_enough() -> None:
    """Not full; and what fits nowhere waits for nobody."""
    reader = Reader()
    reader.let.set()
    gathering = batcher(reader, wait_seconds=0.05)
    alone, *_ = tasks = reads(gathering, b"X", b"a", b"aa")
    await alone
    assert reader.batches == [[b"X"]]
    await asyncio.gather(*tasks)
    assert reader.batches == [[b"X"], [b"a", b"aa"]]


async def test_a_bad_image_is_its_senders_alone() -> None:
    """The others of the batch are read."""
    reader = Reader()
    reader.let.set()
    first, second, bad = reads(batcher(reader), b"b1", b"b2", b"bad")
    assert (await first).width == (await second).width == 2
    with pytest.raises(PayloadRejected):
        await bad


async def test_who_is_cancelled_leaves_and_the_last_one_puts_out_the_light() -> None:
    """An open batch goes on without him; one that is being read is stopped when nobody waits any more."""
    reader = Reader()
    gathering = batcher(reader)
    gone, *others = reads(gathering, b"a0", b"a1")
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.wait([gone])
    others += reads(gathering, b"a2", b"a3")
    await wait_until(lambda: reader.batches == [[b"a1", b"a2"]], "the batch is being read")
    others[0].cancel()
    await asyncio.wait([others[0]])
    assert reader.cancelled == 0
    others[1].cancel()
    await wait_until(lambda: reader.cancelled == 1, "the batch is stopped")
    gathering.stop()
    await asyncio.wait([others[2]])
    assert others[2].cancelled()


def test_similar_sizes_share_a_bucket() -> None:
    """By the header; what has none, or a bad one, is alone."""
    sizes = [(720, 1280), (750, 1334), (1280, 720), (100, 100)]
    phone, other_phone, lying, icon = (bucket_of(encoded(Image.new("RGB", size))) for size in sizes)
    assert phone == other_phone
    assert len({phone, lying, icon}) == 3
    assert bucket_of(b"no image") is None


# With engine processes ------------------------------------------------------------------------------------------------


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Start pools of one fake engine that reads in batches of four."""
    pools: list[EnginePool] = []

    async def start(timeout_seconds: float = 60.0) -> EnginePool:
        settings = OcrSettings(batch_images=4, batch_wait_ms=20)
        pool = EnginePool(settings, slots=1, max_pixels=1000, task_timeout_seconds=timeout_seconds, command=FAKE)
        assert pool._batcher is not None
        pool._batcher._bucket = lambda _: (0, 0)
        pools.append(pool)
        await pool.start()
        return pool

    yield start
    for pool in pools:
        await pool.stop()
        assert pool.pids() == ()


async def outcomes(pool: EnginePool, *images: str) -> list[str]:
    """Read side by side; return texts, and reasons of failures."""

    async def one(image: str) -> str:
        try:
            return (await pool.read(image.encode())).lines[0].text
        except (EngineFailed, PayloadRejected) as error:
            return error.reason

    return list(await asyncio.gather(*map(one, images)))


async def test_four_images_go_to_the_engine_together(start: Start) -> None:
    """One request, four answers; a rejected one among them."""
    pool = await start()
    assert await outcomes(pool, "say:a", "reject:too_odd", "say:b", "say:c") == ["4 a", "too_odd", "4 b", "4 c"]
    assert pool.replaced == 0


@pytest.mark.parametrize(
    ("culprit", "reason"),
    [("crash", "engine_crashed"), ("cuda_unless:never", "gpu_error"), ("short", "engine_crashed")],
)
async def test_a_poisoned_batch_is_divided_until_the_culprit_is_alone(start: Start, culprit: str, reason: str) -> None:
    """The innocent are read, in fresh processes; one answer too few would shift the texts, and is a culprit too."""
    pool = await start()
    found = await outcomes(pool, "say:a", culprit, "say:b", "say:c")
    assert found == ["a", reason, "2 b", "2 c"]


async def test_a_batch_that_hangs_is_read_one_by_one(start: Start) -> None:
    """It has a part of the time only, so that the innocent are still in time."""
    pool = await start(timeout_seconds=2.0)
    assert await outcomes(pool, "say:a", "say:b", "say:c", "hang") == ["a", "b", "c", "engine_timeout"]


# Inside the child -----------------------------------------------------------------------------------------------------


class Together:
    """Reads batches; ``lost`` answers are missing at the end."""

    name, version = "together", "1"

    def __init__(self, lost: int = 0) -> None:
        self.lost = lost
        self.sizes: list[int] = []

    def read(self, image: NDArray[np.uint8], *, thrifty: bool = False) -> tuple[Line, ...]:
        """Say how wide it is."""
        return (Line(str(image.shape[1]), Box(0, 0, 5, 5), 1.0),)

    def read_many(self, images: Sequence[NDArray[np.uint8]]) -> list[tuple[Line, ...]]:
        """Say how wide they are."""
        self.sizes.append(len(images))
        return [self.read(image) for image in images][: len(images) - self.lost]


def image_of(width: int, *others: int) -> bytes:
    """Return a TIFF with pages of these widths."""
    first, *pages = (Image.new("RGB", (each, 20), (each, 0, 0)) for each in (width, *others))
    return encoded(first, "TIFF", save_all=True, append_images=pages)


def test_all_frames_of_a_batch_are_read_at_once_and_given_back_to_their_images() -> None:
    """A bad image is answered for itself; pages lie below each other."""
    engine = Together()
    assert isinstance(engine, BatchEngine)
    request = ReadMany(5, (image_of(30), b"no image", image_of(40, 50), image_of(60)))
    answer = examine_many(engine, request, OcrSettings(), 10**6)
    assert isinstance(answer, DoneMany)
    one, bad, two, three = answer.answers
    assert isinstance(bad, Rejected)
    assert engine.sizes == [4]
    read = [done for done in (one, two, three) if isinstance(done, Done)]
    assert [[line.text for line in done.lines] for done in read] == [["30"], ["40", "50"], ["60"]]
    assert (read[1].width, read[1].height, read[1].lines[1].box.top) == (50, 40, 20)


def test_an_answer_too_few_is_no_answer() -> None:
    """Or texts would come to other images than theirs."""
    answer = examine_many(Together(lost=1), ReadMany(5, (image_of(30), image_of(40))), OcrSettings(), 10**6)
    assert isinstance(answer, Broken)
    assert "2 images went in, 1 answers came out" in answer.detail
