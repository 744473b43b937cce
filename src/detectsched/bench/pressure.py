"""``detectsched bench pressure``: a CPU runner beside its own work, beside as much work of others, and afterwards.

It needs a machine with nothing else to do, and says so where it finds another load.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from pydantic import SecretStr
from rich.console import Console
from rich.table import Table

from detectsched.bench.own_system import on_own_system
from detectsched.bench.pages import screenshot
from detectsched.client import Client
from detectsched.clock import monotonic
from detectsched.embedded.up import System
from detectsched.queueing.connection import RedisClients
from detectsched.queueing.queue import Queue
from detectsched.runner.probe import Probe
from detectsched.settings import RedisSettings, Settings

_MAC: Final = "02:de:05:00:be:02"
_LANE: Final = "ocr"
_IN_FLIGHT: Final = 8
_PHASE_SECONDS: Final = 20.0
_CHANGE_SECONDS: Final = 40.0
"""Longest time a change may take: the load is smoothed over some seconds."""
_LOOK_SECONDS: Final = 0.2
_THREADS_PER_SLOT: Final = 4
_CALM_PERCENT: Final = 30.0
_BUSY: Final = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(100_000))\n"
"""Keeps a core busy until whoever started it is gone."""


async def run_pressure() -> int:
    """Show that own work does not push a runner back, that other work does, and that it resumes; 0 if all is so."""
    console = Console()
    calm = await _load_of_others()
    if calm > _CALM_PERCENT:
        console.print(f"other programs use {calm:.0f} % of this machine: nothing can be told here", style="bold red")
        return 1
    cores = len(os.sched_getaffinity(0))
    # What `up` decides otherwise, for a machine of one's own: here the default watermark is what is shown.
    os.environ.setdefault("DETECTSCHED_RUNNER_CPU_HIGH_PERCENT", "75")
    os.environ.setdefault("DETECTSCHED_RUNNER_OCR_SLOTS", str(max(1, cores // _THREADS_PER_SLOT)))
    os.environ.setdefault("DETECTSCHED_RUNNER_HEARTBEAT_SECONDS", "2")

    async def guest(system: System) -> int:
        return await _show(system, cores, console)

    return await on_own_system(guest, ocr_runners=1)


async def _load_of_others() -> float:
    probe = Probe()
    await asyncio.sleep(2.0)
    return (await asyncio.to_thread(probe.measure, {os.getpid()})).foreign_cpu_percent


@dataclass
class Phase:
    """What was seen in one phase."""

    name: str
    seconds: float = 0.0
    images: int = 0
    states: list[str] = field(default_factory=list)
    cpu_percent: list[float] = field(default_factory=list)
    reason: str = ""

    def row(self) -> tuple[str, ...]:
        """Return its line of the table."""
        cpu = sum(self.cpu_percent) / max(1, len(self.cpu_percent))
        return (self.name, f"{self.seconds:.1f}", str(self.images), " → ".join(self.states), f"{cpu:.0f}", self.reason)


class Observer:
    """Watches the one runner of a system from outside, as the dispatcher sees it."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self.phases: list[Phase] = []

    async def phase(self, name: str, seconds: float, *, until: str | None = None) -> Phase:
        """Watch for so long, or until the runner is in a state."""
        phase = Phase(name)
        self.phases.append(phase)
        began, done = monotonic(), await self._completed()
        while monotonic() - began < seconds:
            state = "absent"
            for runner in await self._queue.registry.workers():
                state = runner.state
                phase.cpu_percent.append(runner.cpu_percent)
                phase.reason = runner.reason or phase.reason
            if phase.states[-1:] != [state]:
                phase.states.append(state)
            if state == until:
                break
            await asyncio.sleep(_LOOK_SECONDS)
        phase.seconds = monotonic() - began
        phase.images = await self._completed() - done
        return phase

    async def _completed(self) -> int:
        return int((await self._queue.level((_LANE,)))[f"completed:{_LANE}"])


async def _show(system: System, cores: int, console: Console) -> int:
    redis = RedisSettings(url=SecretStr(system.redis_url))
    clients = RedisClients(redis, name="bench")
    observer = Observer(Queue(clients, Settings(redis=redis)))
    try:
        async with Client(system.api_url, system.admin_key or "") as client, _fed(client) as endings:
            await observer.phase("until it is there", _CHANGE_SECONDS, until="healthy")
            await observer.phase("warm-up", _PHASE_SECONDS / 4)
            own = await observer.phase("own work only", _PHASE_SECONDS)
            with _busy(cores):
                pressed = await observer.phase("+ as much of others: until it is busy", _CHANGE_SECONDS, until="busy")
                await observer.phase("what it had begun is finished", _PHASE_SECONDS / 4)
                beside = await observer.phase("+ as much of others", _PHASE_SECONDS)
            resumed = await observer.phase("the others gone: until it is healthy", _CHANGE_SECONDS, until="healthy")
            after = await observer.phase("own work only", _PHASE_SECONDS)
    finally:
        await clients.close()
    columns = ("phase", "seconds", "images", "runner", "CPU %", "reason")
    table = Table(*columns, title=f"A runner under pressure on {cores} cores")
    for phase in observer.phases:
        table.add_row(*phase.row())
    console.print(table)
    claims = {
        "at work on its own it stays healthy": own.states == ["healthy"] and own.images > 0,
        "beside as much work of others it stops": pressed.states[-1] == "busy",
        "while it is busy it starts nothing": beside.images == 0,
        "it resumes when they have gone": resumed.states[-1] == "healthy" and after.images > 0,
        "no image was lost, and no attempt spent": all(ending == ("succeeded", 0) for ending in endings.values()),
    }
    for claim, holds in claims.items():
        console.print(f"{'yes' if holds else 'NO '}  {claim}", style="" if holds else "bold red")
    return 0 if all(claims.values()) else 1


@contextmanager
def _busy(cores: int) -> Iterator[None]:
    """Keep as many cores busy as the machine has, in processes that are not the runner's."""
    processes = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(cores)]  # noqa: S603 - our own code
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


@asynccontextmanager
async def _fed(client: Client) -> AsyncIterator[dict[int, tuple[str, int] | None]]:
    """Keep some images waiting, each different from all others; give how each of them has ended, or None."""
    numbers = count()
    endings: dict[int, tuple[str, int] | None] = {}
    stopped = asyncio.Event()

    async def feed() -> None:
        while not stopped.is_set():
            endings[number := next(numbers)] = None
            data = await asyncio.to_thread(screenshot, number)
            task_id = await client.submit_image(_MAC, f"{number}.png", data, "image/png", key=f"pressure-{number}")
            task = await client.result(task_id)
            endings[number] = (str(task["state"]), int(task["attempts"]))

    feeders = [asyncio.create_task(feed()) for _ in range(_IN_FLIGHT)]
    try:
        yield endings
        stopped.set()
        await asyncio.wait(feeders, timeout=_CHANGE_SECONDS)
    finally:
        for feeder in feeders:
            feeder.cancel()
        await asyncio.wait(feeders)
