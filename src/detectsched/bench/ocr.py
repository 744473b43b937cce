"""``detectsched bench ocr``: images/s of the whole system against the engine alone on the same cores.

Both read the same pages with the same threads, by turns: a shared machine is faster at one time than at another. Run it
on a machine with nothing else to do; what others use is subtracted from neither.
"""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from rich.console import Console
from rich.table import Column, Table

from detectsched.bench.own_system import on_own_system
from detectsched.bench.pages import screenshot
from detectsched.client import Client
from detectsched.clock import monotonic
from detectsched.embedded.up import System
from detectsched.ocr.cores import engine_threads
from detectsched.ocr.process import engine_environment
from detectsched.settings import load_settings

_MAC: Final = "02:de:05:00:be:03"
_WARM: Final = 3
_GOAL: Final = 0.95
"""The whole platform is to cost no more than a twentieth of what the engine alone does."""


class Round(NamedTuple):
    """What both took for the same pages, in seconds."""

    images: int
    bare: float
    platform: float


async def run_ocr(*, images: int, slots: int, rounds: int) -> int:
    """Measure both by turns and show the ratio; 0 if it reaches the goal."""
    console = Console()
    # Nothing of this machine belongs to others here.
    os.environ.setdefault("DETECTSCHED_RUNNER_CPU_HIGH_PERCENT", "100")
    os.environ["DETECTSCHED_RUNNER_OCR_SLOTS"] = str(slots)
    # The system's images must not wait for its API's limit, nor be known from each other.
    os.environ.setdefault("DETECTSCHED_API_MAX_PER_MAC_PENDING", str(max(200, 2 * images)))
    done: list[Round] = []

    async def guest(system: System) -> int:
        async with _bare_engines(slots) as engines:
            for number in range(rounds):
                console.print(f"round {number + 1} of {rounds}: {images * slots} images each …")
                # Numbers of pages that no other round reads, with those that are read first, to warm up.
                first = number * (images + _WARM) * slots
                bare = await _bare(engines, first + _WARM * slots, images)
                platform = await _platform(system, slots, first, images * slots)
                done.append(Round(images * slots, bare, platform))
        return 0

    status = await on_own_system(guest, ocr_runners=1)
    if status or len(done) < rounds:
        return status or 1
    console.print(_table(done))
    ratio = sum(each.bare for each in done) / sum(each.platform for each in done)
    console.print(f"the whole system reads {ratio:.1%} of what the engine alone reads (goal: {_GOAL:.0%})")
    return 0 if ratio >= _GOAL else 1


def _table(done: list[Round]) -> Table:
    table = Table(*(Column(name, justify="right") for name in ("images/s, engine alone", "whole system", "ratio")))
    for each in done:
        table.add_row(
            f"{each.images / each.bare:.3f}", f"{each.images / each.platform:.3f}", f"{each.bare / each.platform:.1%}"
        )
    return table


@asynccontextmanager
async def _bare_engines(slots: int) -> AsyncIterator[list[Process]]:
    """Lend one bare engine per slot, warm, with the threads that the runner gives to its own."""
    command = (sys.executable, "-m", "detectsched.bench.bare_engine", str(slots))
    environment = os.environ | engine_environment(os.environ, engine_threads(load_settings().ocr.threads, slots))
    processes = [
        await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, env=environment) for _ in range(slots)
    ]
    try:
        for process in processes:
            await _heard(process, b"warm")
        yield processes
    finally:
        for process in processes:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def _bare(engines: list[Process], first: int, images: int) -> float:
    """Return the seconds in which all engines, at work at the same time, have read so many images each."""
    for number, process in enumerate(engines):
        await _say(process, f"{first + number * images} {images}")
    for process in engines:
        await _heard(process, b"drawn")
    began = monotonic()
    for process in engines:
        await _say(process, "go")
    for process in engines:
        await _heard(process, b"read")
    return monotonic() - began


async def _say(process: Process, line: str) -> None:
    assert process.stdin is not None  # noqa: S101 - a pipe
    process.stdin.write(f"{line}\n".encode())
    await process.stdin.drain()


async def _heard(process: Process, word: bytes) -> None:
    assert process.stdout is not None  # noqa: S101 - a pipe
    while (line := await process.stdout.readline()).strip() != word:
        if not line:
            raise RuntimeError("a bare engine ended before it had read its images")


async def _platform(system: System, slots: int, first: int, images: int) -> float:
    """Return the seconds from the end of the first few images to the end of the last, with enough always waiting."""
    numbers = range(first, first + _WARM * slots + images)
    # Drawn beforehand, as those of the bare engine: drawing takes 3 % of the time that reading takes.
    pages = [(number, await asyncio.to_thread(screenshot, number)) for number in reversed(numbers)]
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
    return ended[-1] - ended[_WARM * slots - 1]
