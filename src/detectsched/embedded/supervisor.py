"""Keeps a program running: restarts it with growing pauses, and gives up on one that keeps dying."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from detectsched.clock import monotonic
from detectsched.embedded.console import Console
from detectsched.embedded.process import Child
from detectsched.errors import DetectschedError
from detectsched.lifecycle import Service


@dataclass(frozen=True, slots=True)
class Patience:
    """How long things may take, and how often they may go wrong. Times in seconds."""

    ready: float = 120.0
    """From start to ready; an API waits for its stores, which may be remote."""
    quick: float = 10.0
    """A process that lived for less than this has died quickly."""
    quick_deaths: int = 5
    """So many in a row, and the supervisor gives up."""
    first_pause: float = 0.5
    """Before the first restart; each further quick death doubles it."""
    longest_pause: float = 10.0


class KeepsDying(DetectschedError):
    """A supervised process dies faster than it is worth restarting."""


class Supervised(Service):
    """A program that is to run all the time.

    Args:
        name: what the console calls it.
        argv: its command line.
        environment: its whole environment.
        console: takes its output, and what is to be said about it.
        ready: asked until it says yes before `start` returns; None: running is enough.
        grace: seconds it has to end by itself after SIGTERM.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str],
        console: Console,
        ready: Callable[[], Awaitable[bool]] | None = None,
        grace: float = 10.0,
        patience: Patience | None = None,
    ) -> None:
        self._name = name
        self._argv = list(argv)
        self._environment = dict(environment)
        self._console = console
        self._ready = ready
        self._grace = grace
        self._patience = patience or Patience()
        self._changing = asyncio.Lock()
        self._child: Child | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = False

    @property
    def name(self) -> str:
        """What the console calls it."""
        return self._name

    @property
    def pid(self) -> int | None:
        """Its process id while it runs."""
        return self._child.pid if self._child and self._child.status is None else None

    async def start(self) -> None:
        """Start it and return when it is ready; a death in between is treated as any other.

        Raises:
            KeepsDying: it gave up before it was ready, or is not ready in time.
        """
        async with self._changing:
            if self._task is not None:
                return
            self._stopping = False
            self._spawn()
            self._task = asyncio.create_task(self._supervise(), name=f"supervise {self.name}")
            if self._ready is not None:
                await self._wait_until_ready(self._task, self._ready)

    async def stop(self) -> None:
        """Ask it to end, and kill it if it does not; nothing of it is left."""
        async with self._changing:
            task, self._task = self._task, None
            if task is None:
                return
            self._stopping = True
            if self._child is not None and not await self._child.stop(signal.SIGTERM, self._grace):
                self._console.say(f"{self.name} did not end within {self._grace:g} s and was killed")
            task.cancel()
            await asyncio.wait([task])

    async def wait(self) -> None:
        """Raise `KeepsDying` when there is no point in going on."""
        if self._task is not None:
            await asyncio.shield(self._task)

    def _spawn(self) -> Child:
        self._child = Child(
            self.name, self._argv, environment=self._environment, on_line=self._console.writer(self.name)
        )
        return self._child

    async def _supervise(self) -> None:
        quick_deaths = 0
        child = self._child or self._spawn()
        while True:
            await child.ended.wait()
            if self._stopping:
                return
            lived = monotonic() - child.started_at
            quick_deaths = quick_deaths + 1 if lived < self._patience.quick else 1
            if quick_deaths >= self._patience.quick_deaths:
                raise KeepsDying(
                    f"{self.name} died {quick_deaths} times in a row soon after its start; giving up. "
                    + child.describe_end()
                )
            pause = min(self._patience.longest_pause, self._patience.first_pause * 2 ** (quick_deaths - 1))
            # Jitter, so that several that died of one cause do not come back together.
            pause *= random.uniform(0.75, 1.25)  # noqa: S311 - not a secret
            # Few of its lines: all of them have just gone over the same screen, perhaps among others.
            self._console.say(f"{child.describe_end(lines=5)}\nrestarting {self.name} in {pause:.1f} s")
            await asyncio.sleep(pause)
            child = self._spawn()

    async def _wait_until_ready(self, supervision: asyncio.Task[None], ready: Callable[[], Awaitable[bool]]) -> None:
        deadline = monotonic() + self._patience.ready
        while not await ready():
            if supervision.done():
                supervision.result()
            if monotonic() > deadline:
                said = "".join(f"\n  | {line}" for line in (self._child.tail if self._child else ()))
                raise KeepsDying(f"{self.name} is not ready after {self._patience.ready:g} s; its last words:{said}")
            await asyncio.sleep(0.05)


class Together(Service):
    """Services that need not wait for each other."""

    def __init__(self, name: str, services: Sequence[Service]) -> None:
        self._name = name
        self._services = list(services)

    @property
    def name(self) -> str:
        """What the logs call them."""
        return self._name

    async def start(self) -> None:
        """Start them side by side."""
        await asyncio.gather(*(service.start() for service in self._services))

    async def stop(self) -> None:
        """Stop them side by side, so that their graces do not add up."""
        await asyncio.gather(*(service.stop() for service in self._services))

    async def wait(self) -> None:
        """Return or raise as soon as one of them does."""
        if not self._services:
            await asyncio.Event().wait()
        watchers = [asyncio.create_task(service.wait()) for service in self._services]
        try:
            done, _ = await asyncio.wait(watchers, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for watcher in watchers:
                watcher.cancel()
        for watcher in done:
            watcher.result()
