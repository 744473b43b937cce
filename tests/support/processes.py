"""Daemons as real processes, on the test's own stores."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import Enum

from pydantic import SecretStr

from detectsched.settings import ENV_PREFIX, Settings, environment_names
from tests.support.waiting import wait_until


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
    """One daemon's process, and all that it has said."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.output = ""
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.output += line.decode(errors="replace")

    async def wait_for(self, words: str, timeout: float = 30.0) -> None:  # noqa: ASYNC109 - it shall fail with a description
        """Wait until the daemon has said these words."""
        await wait_until(lambda: words in self.output, lambda: f"{words!r} in:\n{self.output[-3000:]}", timeout)

    async def ended(self, timeout: float = 15.0) -> int:  # noqa: ASYNC109
        """Wait until the process is gone; return its exit status."""
        status = await asyncio.wait_for(self.process.wait(), timeout)
        await self._reading
        return status

    async def kill(self) -> None:
        """Kill it without a word."""
        self.process.kill()
        await self.ended()


@asynccontextmanager
async def daemon(settings: Settings, *arguments: str) -> AsyncIterator[Daemon]:
    """Run ``detectsched <arguments>``; whatever is left of it afterwards is killed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "detectsched",
        *arguments,
        env=environment_of(settings),
        stderr=asyncio.subprocess.PIPE,
        stdin=asyncio.subprocess.DEVNULL,
    )
    running = Daemon(process)
    try:
        yield running
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGCONT)
            await running.kill()
