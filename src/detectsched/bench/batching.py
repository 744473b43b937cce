"""``detectsched bench batching``: images/s for several sizes of micro-batches, through a pool of engine processes.

It settles with which `OcrSettings.batch_images` a machine is fastest. On a CPU that is 1; on a GPU nobody has measured.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.table import Table

from detectsched.bench.pages import screenshot
from detectsched.clock import monotonic
from detectsched.ocr.pool import EnginePool
from detectsched.settings import load_settings

_WARM: Final = 2


async def run_batching(*, images: int, sizes: Sequence[int], slots: int, gpu: bool) -> int:
    """Read the same images with each size of batch, and show how fast that was."""
    console, settings = Console(), load_settings()
    pages = await asyncio.to_thread(lambda: [screenshot(number) for number in range(images)])
    table = Table("images a batch", "images/s", "seconds an image waits and is read, at most", title="Micro-batches")
    for size in sizes:
        ocr = settings.ocr.model_copy(update={"batch_images": size, "gpu": gpu or settings.ocr.gpu})
        pool = EnginePool(
            ocr,
            slots=slots,
            max_pixels=settings.api.max_image_pixels,
            task_timeout_seconds=settings.runner.task_timeout_seconds,
        )
        await pool.start()
        try:
            await asyncio.gather(*(pool.read(page) for page in pages[: _WARM * size]))
            rate, longest = await _measure(pool, pages, in_flight=2 * size * slots)
        finally:
            await pool.stop()
        table.add_row(str(size), f"{rate:.3f}", f"{longest:.2f}")
    console.print(table)
    return 0


async def _measure(pool: EnginePool, pages: Sequence[bytes], *, in_flight: int) -> tuple[float, float]:
    """Return images/s, and the longest time from asking to the answer."""
    room = asyncio.Semaphore(in_flight)
    took: list[float] = []

    async def read(page: bytes) -> None:
        async with room:
            began = monotonic()
            await pool.read(page)
            took.append(monotonic() - began)

    began = monotonic()
    await asyncio.gather(*map(read, pages))
    return len(pages) / (monotonic() - began), max(took)
