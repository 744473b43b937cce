"""Micro-batches: images of similar size that come at about the same time are read together.

Off by default (`OcrSettings.batch_images`). On a CPU it loses: 0.72 images/s against 0.81 one by one, with four times
the memory (PaddleOCR on ONNX Runtime). What it gains on a GPU `detectsched bench batching` will tell.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from detectsched.detection import EngineResult
from detectsched.ocr.formats import BadImage, open_image

_STEP: Final = math.sqrt(2)
"""Sides of one bucket differ by less than this factor: an engine pads a batch to its largest image."""
_ANY_SIZE: Final = 2**62

ReadMany = Callable[[Sequence[bytes]], Awaitable[list[EngineResult | Exception]]]
Bucket = tuple[int, int] | None


def bucket_of(data: bytes) -> Bucket:
    """Return which images this one may be read with, by the size in its header; None: it is read alone."""
    try:
        with open_image(data, _ANY_SIZE) as image:
            return round(math.log(image.width, _STEP)), round(math.log(image.height, _STEP))
    except BadImage:
        return None


@dataclass(slots=True)
class _Batch:
    images: list[bytes] = field(default_factory=list)
    waiting: list[asyncio.Future[EngineResult]] = field(default_factory=list)
    due: asyncio.TimerHandle | None = None


class Batcher:
    """Gathers images by bucket until there are ``most`` or the first has waited ``wait_seconds``."""

    def __init__(
        self,
        read_many: ReadMany,
        *,
        most: int,
        wait_seconds: float,
        bucket: Callable[[bytes], Bucket] = bucket_of,
    ) -> None:
        self._read_many = read_many
        self._most = most
        self._wait = wait_seconds
        self._bucket = bucket
        self._open: dict[Bucket, _Batch] = {}
        self._running: set[asyncio.Task[None]] = set()

    async def read(self, data: bytes) -> EngineResult:
        """Read one image file, perhaps with others; raise what reading it raises.

        Cancelling takes it out of a batch that is still open. One that is being read goes on, for the others', and is
        stopped with the last who waits for it.
        """
        bucket = self._bucket(data)
        batch = self._open.setdefault(bucket, _Batch())
        answer: asyncio.Future[EngineResult] = asyncio.get_running_loop().create_future()
        batch.images.append(data)
        batch.waiting.append(answer)
        if bucket is None or len(batch.images) >= self._most:
            self._close(bucket)
        elif batch.due is None:
            batch.due = asyncio.get_running_loop().call_later(self._wait, self._close, bucket)
        return await answer

    def stop(self) -> None:
        """Let go of what is gathered and of what is being read."""
        for bucket in list(self._open):
            batch = self._open.pop(bucket)
            if batch.due is not None:
                batch.due.cancel()
            for answer in batch.waiting:
                answer.cancel()

    def _close(self, bucket: Bucket) -> None:
        batch = self._open.pop(bucket)
        if batch.due is not None:
            batch.due.cancel()
        wanted = [pair for pair in zip(batch.images, batch.waiting, strict=True) if not pair[1].cancelled()]
        if not wanted:
            return
        images, answers = [data for data, _ in wanted], [answer for _, answer in wanted]
        task = asyncio.create_task(self._run(images, answers), name="batch")
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _run(self, images: list[bytes], answers: list[asyncio.Future[EngineResult]]) -> None:
        me = asyncio.current_task()

        def leave(_: asyncio.Future[EngineResult]) -> None:
            if me is not None and all(answer.cancelled() for answer in answers):
                me.cancel()

        for answer in answers:
            answer.add_done_callback(leave)
        try:
            outcomes: Sequence[EngineResult | Exception] = await self._read_many(images)
        except Exception as error:  # noqa: BLE001 - whoever waits for an image has to learn it
            outcomes = [error] * len(images)
        for answer, outcome in zip(answers, outcomes, strict=True):
            if answer.done():
                continue
            if isinstance(outcome, Exception):
                answer.set_exception(outcome)
            else:
                answer.set_result(outcome)
