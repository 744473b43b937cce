"""A child process that answers messages: its pipes, its group and its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from typing import Final

import psutil

from detectsched.ocr.protocol import Answer, ProtocolError, Request, frame, receive_answer

_CHUNK: Final = 65_536
_LAST_WORDS: Final = 2000
_LAST_MOMENT_SECONDS: Final = 1.0
"""How long a process that has closed its pipe may take to end; until then its exit status is its own."""


class ChildGone(Exception):
    """The process died, or was killed for saying what is not a message; `ChildProcess.end` says which."""


class ChildProcess:
    """Asked one thing at a time; made by `spawn`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None  # noqa: S101 - all three are pipes, see `spawn`
        assert process.stdout is not None  # noqa: S101
        assert process.stderr is not None  # noqa: S101
        self._process = process
        self._stdin, self._stdout, self._stderr = process.stdin, process.stdout, process.stderr
        self._asking = asyncio.Lock()
        self._answer: asyncio.Future[Answer | None] | None = None
        self._said = bytearray()
        self._nonsense = ""
        self._over = False
        self._life = asyncio.create_task(self._live(), name=f"child process {process.pid}")

    @classmethod
    async def spawn(cls, command: Sequence[str], environment: Mapping[str, str]) -> ChildProcess:
        """Start a command with exactly this environment."""
        return cls(
            await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=dict(environment),
                # A group of its own: Ctrl-C does not reach it, and whatever it starts dies with it.
                start_new_session=True,
            )
        )

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it can be asked; False from the moment it is killed."""
        return not self._over

    @property
    def rss(self) -> int:
        """Resident memory in bytes; 0 when it is gone."""
        try:
            return int(psutil.Process(self.pid).memory_info().rss) if self.alive else 0
        except psutil.Error:
            return 0

    @property
    def end(self) -> str:
        """How it ended, in words; meaningful after `ended`."""
        if self._nonsense:
            return f"the engine process sent nonsense ({self._nonsense})"
        status = self._process.returncode
        if status is not None and status < 0:
            return f"the engine process was ended by {signal.Signals(-status).name}"
        return f"the engine process ended with status {status}"

    @property
    def last_words(self) -> str:
        """The end of what it wrote to standard error."""
        return self._said.decode(errors="replace").strip()

    async def ask(self, request: Request) -> Answer:
        """Send a message and wait for the answer.

        Raises:
            ChildGone: there will be none.
        """
        async with self._asking:
            if self._over:
                raise ChildGone
            answer = self._answer = asyncio.get_running_loop().create_future()
            try:
                self._stdin.write(frame(request))
                await self._stdin.drain()
                result: Answer | None = await answer
            except ConnectionError as error:
                raise ChildGone from error
            finally:
                self._answer = None
            if result is None:
                raise ChildGone
            return result

    async def idle(self) -> None:
        """Wait until nothing is being asked."""
        async with self._asking:
            pass

    def kill(self) -> None:
        """Kill it and all it started."""
        self._over = True
        # Its number cannot belong to another process: it is not reaped, or its group still exists, or nobody is there.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    async def ended(self) -> None:
        """Wait until it is gone, for whatever reason."""
        await asyncio.shield(self._life)

    async def _live(self) -> None:
        """Listen until the end, and leave nothing behind."""
        words = asyncio.create_task(self._listen())
        await self._hear()
        self._over = True
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(None)
        self._stdin.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_MOMENT_SECONDS):
                await self._process.wait()
        # What it started outlives a crash, and would keep the pipe of standard error open.
        self.kill()
        await self._process.wait()
        await words

    async def _hear(self) -> None:
        """Pass answers on, until the pipe ends or something comes that is no answer."""
        try:
            while True:
                self._pass_on(await receive_answer(self._stdout))
        except EOFError:
            return
        except ProtocolError as error:
            self._nonsense = str(error)
            self.kill()
        # An unread pipe never ends.
        while await self._stdout.read(_CHUNK):
            pass

    def _pass_on(self, answer: Answer) -> None:
        if self._answer is None or self._answer.done():
            raise ProtocolError("an answer that nobody asked for")
        self._answer.set_result(answer)

    async def _listen(self) -> None:
        """Keep the last words only; the process must neither block on a full pipe nor fill our memory."""
        while words := await self._stderr.read(_CHUNK):
            self._said += words
            del self._said[:-_LAST_WORDS]
