"""``detectsched bench ocr``: images/s of the whole system against the engine alone on the same cores.

Both read the same kind of page with the same threads, one after the other in time. Run it on a machine with nothing
else to do; what others use is subtracted from neither.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path
from typing import Final

from rich.console import Console

from detectsched.bench.pages import screenshot
from detectsched.client import Client
from detectsched.clock import monotonic
from detectsched.embedded.up import System, UpOptions, up

_MAC: Final = "02:de:05:00:be:03"
_WARM: Final = 3
_GOAL: Final = 0.95
"""The whole platform is to cost no more than a twentieth of what the engine alone does."""


async def run_ocr(*, images: int, slots: int) -> int:
    """Measure both and show the ratio; 0 if it reaches the goal."""
    console = Console()
    # Nothing of this machine belongs to others here.
    os.environ.setdefault("DETECTSCHED_RUNNER_CPU_HIGH_PERCENT", "100")
    os.environ["DETECTSCHED_RUNNER_OCR_SLOTS"] = str(slots)
    # The system's images must not wait for its API's limit, nor be known from each other.
    os.environ.setdefault("DETECTSCHED_API_MAX_PER_MAC_PENDING", str(max(200, 2 * images)))
    console.print(f"reading {images} images a slot with the engine alone, {slots} processes …")
    bare = await _bare(slots, images)
    rates: list[float] = []

    async def guest(system: System) -> int:
        rates.append(await _platform(system, slots, images * slots))
        return 0

    console.print(f"reading {images * slots} images with the whole system …")
    with tempfile.TemporaryDirectory(prefix="detectsched-bench-") as directory:
        data = Path(directory)
        status = await up(UpOptions(data=data, port=0, text_runners=0, log=data / "up.log"), guest=guest)
    if status or not rates:
        return status or 1
    ratio = rates[0] / bare
    console.print(f"engine alone  {bare:.3f} images/s")
    console.print(f"whole system  {rates[0]:.3f} images/s, {ratio:.1%} of it (goal: {_GOAL:.0%})")
    return 0 if ratio >= _GOAL else 1


async def _bare(slots: int, images: int) -> float:
    """Return images/s of one bare engine per slot, all at work at the same time."""
    command = (sys.executable, "-m", "detectsched.bench.bare_engine", str(slots), str(images))
    pipe = asyncio.subprocess.PIPE
    processes = [await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe) for _ in range(slots)]
    try:
        for process in processes:
            assert process.stdout is not None  # noqa: S101 - a pipe, see above
            await process.stdout.readline()
        began = monotonic()
        for process in processes:
            assert process.stdin is not None  # noqa: S101
            process.stdin.write(b"\n")
            await process.stdin.drain()
        for process in processes:
            assert process.stdout is not None  # noqa: S101
            if not await process.stdout.readline():
                raise RuntimeError("a bare engine ended before it had read its images")
        return slots * images / (monotonic() - began)
    finally:
        for process in processes:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def _platform(system: System, slots: int, images: int) -> float:
    """Return images/s from the end of the warm-up to the end of the last image, with enough of them always waiting."""
    # Drawn beforehand, as those of the bare engine: drawing takes 3 % of the time that reading takes.
    pages = list(enumerate([await asyncio.to_thread(screenshot, number) for number in range(_WARM * slots + images)]))
    ended: list[float] = []

    async def feed(client: Client) -> None:
        while pages:
            number, data = pages.pop()
            task_id = await client.submit_image(_MAC, f"{number}.png", data, "image/png", key=f"bench-{number}")
            task = await client.result(task_id)
            if task["state"] != "succeeded":
                raise RuntimeError(f"image {number} ended {task['state']}: {task.get('error')}")
            ended.append(monotonic())

    async with Client(system.api_url, system.admin_key or "") as client, asyncio.TaskGroup() as feeders:
        for _ in range(4 * slots):
            feeders.create_task(feed(client))
    ended.sort()
    first, last = ended[_WARM * slots - 1], ended[-1]
    return images / (last - first)
