"""A daemon as a process of its own, with its settings as its environment and its words in a file."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Final

import psutil
from pydantic import SecretStr

from detectsched.settings import ENV_PREFIX, Settings, environment_names

_STOP_SECONDS: Final = 20.0


def environment_of(settings: Settings) -> dict[str, str]:
    """Return the environment in which a process reads exactly these settings."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ENV_PREFIX)}
    for name, group, field in environment_names():
        value = getattr(getattr(settings, group), field) if group else getattr(settings, field)
        if isinstance(value, SecretStr):
            value = value.get_secret_value()
        elif isinstance(value, Enum):
            value = value.value
        elif isinstance(value, tuple):
            value = ",".join(value)
        if value is not None:
            environment[name] = str(value)
    return environment


class Daemon:
    """One role in the system (``runner-2``), which may die and be started again."""

    def __init__(self, name: str, arguments: Sequence[str], settings: Settings, log: Path) -> None:
        self.name = name
        self.log = log
        self.settings = settings
        self.deaths: list[int] = []
        """Exit statuses of ends that nobody asked for."""
        self._arguments = tuple(arguments)
        self._process: asyncio.subprocess.Process | None = None
        self._watch: asyncio.Task[None] | None = None
        self._asked = False
        self._began = 0

    @property
    def pid(self) -> int:
        """Its process id; 0 while it does not run."""
        return self._process.pid if self._process is not None and self._process.returncode is None else 0

    async def start(self, **extra: str) -> None:
        """Start it, with these environment variables on top."""
        self._asked = False
        with self.log.open("ab") as output:
            self._began = output.tell()
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                *self._arguments,
                env=environment_of(self.settings) | extra,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self._watch = asyncio.create_task(self._note_end(self._process))

    async def kill(self) -> None:
        """End it as a crash would."""
        self._asked = True
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
        await self.ended()

    async def terminate(self) -> int:
        """Ask it to stop, and return its exit status; one that does not stop in time is killed: -9."""
        self._asked = True
        if self.pid:
            os.kill(self.pid, signal.SIGCONT)
            os.kill(self.pid, signal.SIGTERM)
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                return await self.ended()
        except TimeoutError:
            await self.kill()
            return -signal.SIGKILL

    async def ended(self) -> int:
        """Wait for its end; return its exit status."""
        if self._process is None:
            return 0
        status = await self._process.wait()
        if self._watch is not None:
            await self._watch
        return status

    def pause(self) -> None:
        """Stop its clock: SIGSTOP."""
        if self.pid:
            os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        if self.pid:
            os.kill(self.pid, signal.SIGCONT)

    def children(self) -> list[psutil.Process]:
        """Return its child processes (the engines of a runner)."""
        return list(psutil.Process(self.pid).children()) if self.pid else []

    def usage(self) -> dict[str, float]:
        """Return its resident memory (MB) and open files."""
        process = psutil.Process(self.pid)
        return {"rss_mb": process.memory_info().rss / 2**20, "fds": float(process.num_fds())}

    def said(self, words: str) -> int:
        """Return how many of its log lines, over all its lives, hold these words."""
        with self.log.open("rb") as lines:
            return sum(words.encode() in line for line in lines)

    def said_now(self, words: str) -> bool:
        """Whether it has said these words in its present life."""
        with self.log.open("rb") as lines:
            lines.seek(self._began)
            return any(words.encode() in line for line in lines)

    @property
    def started(self) -> bool:
        """Whether it has said in its present life that everything of it runs."""
        return self.said_now('"event": "started"')

    async def _note_end(self, process: asyncio.subprocess.Process) -> None:
        status = await process.wait()
        if not self._asked and process is self._process:
            self.deaths.append(status)
