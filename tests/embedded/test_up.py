"""``detectsched up`` as its user sees it: the real command, in a process of its own."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import httpx
import psutil
import pytest

from detectsched.embedded.places import free_port
from detectsched.embedded.servers import EmbeddedPostgres, EmbeddedValkey
from tests.support.waiting import wait_until

UP = "detectsched is up at "


class Running:
    """One run of ``detectsched up`` and what it says."""

    def __init__(self, process: Process, data: Path, port: int) -> None:
        self.process = process
        self.data = data
        self.url = f"http://127.0.0.1:{port}"
        self.lines: list[str] = []
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.lines.append(line.decode().rstrip())

    def said(self, words: str) -> bool:
        """Whether a line holds these words."""
        return any(words in line for line in self.lines)

    async def until_said(self, words: str, timeout: float = 40.0) -> None:  # noqa: ASYNC109
        """Wait for words."""
        await wait_until(lambda: self.said(words), lambda: f"{words!r} in\n" + "\n".join(self.lines), timeout)

    def family(self) -> dict[str, int]:
        """Return the processes below it, as the last words of their command lines → process id."""
        found = {}
        for child in psutil.Process(self.process.pid).children():
            words = child.cmdline()
            found["postgres" if "postgres" in words[0] else "valkey" if "valkey" in words[0] else words[-1]] = child.pid
        return found

    async def end(self, timeout: float = 20.0) -> int:  # noqa: ASYNC109
        """Wait for its end and the end of what it says."""
        async with asyncio.timeout(timeout):
            await self._reading
            return await self.process.wait()


Start = Callable[..., Awaitable[Running]]


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    """Start ``detectsched up``; what still runs after the test is killed."""
    runs: list[Running] = []

    async def run(*options: str, data: Path | None = None, port: int | None = None) -> Running:
        data = data or tmp_path / "data"
        port = port or free_port()
        command = [sys.executable, "-m", "detectsched", "up", "--data", str(data), "--port", str(port), *options]
        # Reading images has its own tests; engines would only take time here.
        process = await asyncio.create_subprocess_exec(*command, "--ocr-runners=0", stdin=DEVNULL, stderr=PIPE)
        runs.append(Running(process, data, port))
        return runs[-1]

    yield run
    for each in runs:
        if each.process.returncode is None:
            each.process.kill()
        await each.end()


def alive(pids: list[int]) -> list[int]:
    """Return those that run."""
    found = []
    for pid in pids:
        try:
            if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                found.append(pid)
        except psutil.NoSuchProcess:
            continue
    return found


async def test_a_first_day(start: Start) -> None:
    """It starts, keeps its key, refuses a second instance, mends a death, stops in order, and remembers everything."""
    run = await start()
    await run.until_said(UP)
    async with httpx.AsyncClient(base_url=run.url) as client:
        assert (await client.get("/readyz")).status_code == 200

    keyfile = run.data / "admin.key"
    key = keyfile.read_text().strip()
    assert keyfile.stat().st_mode & 0o777 == 0o600
    assert run.said(key)

    second = await start(data=run.data)
    assert await second.end() != 0
    assert second.said(f"{run.data} is in use by another `detectsched up`, process {run.process.pid}: stop that one")

    family = run.family()
    os.kill(family["dispatcher"], signal.SIGKILL)
    await run.until_said("dispatcher was ended by SIGKILL")
    await run.until_said("restarting dispatcher")
    await wait_until(lambda: run.family().get("dispatcher") not in {None, family["dispatcher"]}, "another dispatcher")
    # Its own lines: the first one's last words are quoted, too.
    started = re.compile(r"dispatcher +\| .*\] started ")
    await wait_until(lambda: sum(bool(started.match(line)) for line in run.lines) == 2, "it to work")

    family = run.family()
    run.process.send_signal(signal.SIGINT)
    assert await run.end() == 0
    assert alive(list(family.values())) == []
    stopping = [line.split()[0] for line in run.lines if "] stopping " in line and "|" in line]
    assert stopping == ["api", "dispatcher", "text"]

    again = await start(data=run.data)
    await again.until_said(UP)
    assert keyfile.read_text().strip() == key
    assert not again.said(key), "the key is shown once"
    async with httpx.AsyncClient(base_url=again.url, headers={"Authorization": f"Bearer {key}"}) as client:
        assert (await client.get("/api/tasks")).status_code == 200
    again.process.send_signal(signal.SIGTERM)
    assert await again.end() == 0


async def test_killed_it_leaves_nothing_and_starts_again(start: Start) -> None:
    """After kill -9 of the supervisor no process of it lives on; the next start needs no help."""
    run = await start()
    await run.until_said(UP)
    family = list(run.family().values())
    run.process.kill()
    # At once, while the old stores may still be on their way out.
    again = await start(data=run.data)
    await again.until_said(UP)
    assert alive(family) == []
    again.process.send_signal(signal.SIGINT)
    assert await again.end() == 0


async def test_a_second_interrupt_kills_at_once(start: Start) -> None:
    """Whatever the orderly stop is waiting for."""
    run = await start()
    await run.until_said(UP)
    family = run.family()
    # A process that cannot stop: the orderly way would take its whole grace.
    os.kill(family["api"], signal.SIGSTOP)
    run.process.send_signal(signal.SIGINT)
    await run.until_said("stopping")
    run.process.send_signal(signal.SIGINT)
    assert await run.end(timeout=5) == -signal.SIGINT
    await wait_until(lambda: not alive(list(family.values())), "the end of all processes")


async def test_a_port_in_use_is_explained_before_anything_is_started(start: Start) -> None:
    """The message says what to do, and no store was made."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        run = await start(port=taken.getsockname()[1])
        assert await run.end() != 0
    assert run.said("another program listens there")
    assert run.said("give another port with --port")
    assert not (run.data / "postgres").exists()


async def test_an_interrupt_during_the_start_is_heard(start: Start) -> None:
    """Nobody has to wait for the end of a start that is no longer wanted."""
    run = await start()
    await run.until_said("store started")
    run.process.send_signal(signal.SIGINT)
    assert await run.end() == 0
    assert not run.said(UP)


async def test_stores_of_ones_own_are_used(
    start: Start, redis_url: str, postgres_url: str, redis_server: EmbeddedValkey, postgres_server: EmbeddedPostgres
) -> None:
    """With both addresses given, no embedded store is started, and none of yours is stopped."""
    run = await start("--redis-url", redis_url, "--postgres-url", postgres_url)
    await run.until_said(UP)
    assert set(run.family()) == {"api", "dispatcher", "text"}
    assert not (run.data / "valkey").exists()
    run.process.send_signal(signal.SIGINT)
    assert await run.end() == 0
    assert redis_server.pid is not None
    assert postgres_server.pid is not None
