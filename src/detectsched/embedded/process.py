"""A child process that dies with us, whose end and output are known at once, and that leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from detectsched.clock import monotonic

_LEASH: Final = str(Path(__file__).with_name("leash.py"))
_TAIL_LINES: Final = 20
_LONGEST_LINE: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class RunAs:
    """The user that a child started by root becomes; ``reach`` lets it pass private directories (see `leash`)."""

    uid: int
    gid: int
    reach: bool


class Child:
    """One run of a program, in a session of its own, so that a terminal's Ctrl-C reaches only its supervisor.

    ``on_line`` gets each line of its output, standard error included. ``death_signal`` is what the kernel sends it when
    we die, however we die.

    The end is seen through a pidfd, which needs neither a SIGCHLD handler nor a thread.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str],
        on_line: Callable[[str], None],
        cwd: Path | None = None,
        death_signal: signal.Signals = signal.SIGKILL,
        run_as: RunAs | None = None,
    ) -> None:
        self.name = name
        self.ended = asyncio.Event()
        self.tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self.started_at = monotonic()
        self._on_line = on_line
        self._rest = b""
        user = (
            [] if run_as is None else ["--user", f"{run_as.uid}:{run_as.gid}", *(["--reach"] if run_as.reach else [])]
        )
        leash = [sys.executable, "-I", "-S", _LEASH, "--parent", str(os.getpid()), "--signal", str(death_signal.value)]
        self._process = subprocess.Popen(  # noqa: S603 - our own command lines
            [*leash, *user, "--", *argv],
            env=dict(environment),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert self._process.stdout is not None  # noqa: S101 - for the type checker: stdout=PIPE
        self._output = self._process.stdout
        os.set_blocking(self._output.fileno(), False)
        self._pidfd = os.pidfd_open(self._process.pid)
        loop = asyncio.get_running_loop()
        loop.add_reader(self._pidfd, self._on_end)
        loop.add_reader(self._output.fileno(), self._read_output)

    @property
    def pid(self) -> int:
        """Process id, also that of its session."""
        return self._process.pid

    @property
    def status(self) -> int | None:
        """Exit status, negative for the signal that ended it; None while it runs."""
        return self._process.returncode

    def describe_end(self, lines: int = _TAIL_LINES) -> str:
        """Say how it ended and what it said last, in at most so many lines."""
        if self.status is None:
            how = "is still running"
        elif self.status < 0:
            how = f"was ended by {signal.Signals(-self.status).name}"
        else:
            how = f"ended with exit status {self.status}"
        said = "".join(f"\n  | {line}" for line in list(self.tail)[-lines:])
        return f"{self.name} {how}" + (f"; its last words:{said}" if said else " without a word")

    async def stop(self, signum: signal.Signals, grace_seconds: float) -> bool:
        """Ask it to end, wait at most ``grace_seconds``, then kill it; say whether it ended without that."""
        self.send_signal(signum)
        try:
            async with asyncio.timeout(grace_seconds):
                await self.ended.wait()
        except TimeoutError:
            self.send_signal(signal.SIGKILL)
            await self.ended.wait()
            return False
        return True

    def send_signal(self, signum: signal.Signals) -> None:
        """Send a signal to it alone; nothing once it has ended."""
        if self.status is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signum)

    def _on_end(self) -> None:
        # Before it is reaped, so that its id cannot name anybody else's group yet: an engine process of a dead runner
        # must not live on.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        asyncio.get_running_loop().remove_reader(self._pidfd)
        os.close(self._pidfd)
        while self._read_output():
            pass
        if not self._output.closed:
            self._close_output()
        self.ended.set()

    def _read_output(self) -> bool:
        """Take what is there, at most one pipe's worth at a time: a flood of lines must not hold up the loop."""
        if self._output.closed:
            return False
        try:
            data = os.read(self._output.fileno(), _LONGEST_LINE)
        except BlockingIOError:
            return False
        if not data:
            self._close_output()
            return False
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) >= _LONGEST_LINE:
            lines.append(self._rest)
            self._rest = b""
        for line in lines:
            self._take(line)
        return True

    def _close_output(self) -> None:
        if self._rest:
            self._take(self._rest)
            self._rest = b""
        asyncio.get_running_loop().remove_reader(self._output.fileno())
        self._output.close()

    def _take(self, raw: bytes) -> None:
        line = raw.decode(errors="replace").rstrip("\r")
        self.tail.append(line)
        self._on_line(line)
