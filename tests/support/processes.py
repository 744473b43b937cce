"""Daemons as real processes, on the test's own stores."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from chaos.processes import environment_of
from detectsched.settings import Settings
from tests.support.waiting import wait_until


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
async def daemon(settings: Settings, *arguments: str, module: str = "detectsched") -> AsyncIterator[Daemon]:
    """Run ``detectsched <arguments>``, or another module; whatever is left of it afterwards is killed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        module,
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
