"""A whole process: order of start and stop, signals, exit status."""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

IN_ORDER = ["start a", "start b", "start c", "ready", "stop c", "stop b", "stop a"]


class Program:
    """A run of `tests.lifecycle.program`."""

    def __init__(self, process: Process) -> None:
        assert process.stdout is not None
        self.process = process
        self._stdout = process.stdout
        self.lines: list[str] = []

    async def read_until(self, line: str) -> None:
        """Read its output up to a line."""
        while line not in self.lines:
            raw = await asyncio.wait_for(self._stdout.readline(), 20)
            assert raw, f"ended before {line!r}, after {self.lines}"
            self.lines.append(raw.decode().strip())

    async def end(self) -> int:
        """Read the rest and return the exit status."""
        rest = await asyncio.wait_for(self._stdout.read(), 20)
        self.lines += rest.decode().splitlines()
        return await asyncio.wait_for(self.process.wait(), 20)


@pytest.fixture
async def program(request: pytest.FixtureRequest) -> AsyncIterator[Program]:
    """Start the program with the misbehaviour that the test names."""
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "tests.lifecycle.program", request.param]
    process = await asyncio.create_subprocess_exec(*command, cwd=root, stdout=PIPE, stderr=PIPE)
    yield Program(process)
    if process.returncode is None:
        process.kill()
    await process.communicate()


def misbehaving(how: str) -> pytest.MarkDecorator:
    """Choose what service b does wrong."""
    return pytest.mark.parametrize("program", [how], indirect=True)


def talk(program: Program) -> list[str]:
    """Return what was said about starting and stopping."""
    return [line for line in program.lines if line.startswith(("start ", "stop ", "ready"))]


@misbehaving("nothing")
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_stops_everything_in_reverse(program: Program, signum: signal.Signals) -> None:
    """Started in order, stopped in reverse, exit status 0."""
    await program.read_until("ready")
    program.process.send_signal(signum)
    assert await program.end() == 0
    assert talk(program) == IN_ORDER


@misbehaving("from-inside")
async def test_a_stop_from_inside_is_as_orderly(program: Program) -> None:
    """The event that the caller brought."""
    assert await program.end() == 0
    assert talk(program) == IN_ORDER


@misbehaving("die")
async def test_a_dead_service_stops_the_others(program: Program) -> None:
    """Exit status 1, in the same order."""
    assert await program.end() == 1
    assert talk(program) == IN_ORDER


@misbehaving("no-start")
async def test_a_service_that_does_not_start_ends_the_process(program: Program) -> None:
    """What was started before is stopped, and so is the one that failed half-way; nothing after it is started."""
    assert await program.end() == 1
    assert talk(program) == ["start a", "start b", "stop b", "stop a"]
    assert program.process.stderr is not None
    assert b"b lacks a setting" in await program.process.stderr.read()


@misbehaving("slow-start")
async def test_a_signal_breaks_off_a_slow_start(program: Program) -> None:
    """Nobody waits for a start that is no longer wanted."""
    await program.read_until("starting slowly")
    program.process.send_signal(signal.SIGTERM)
    assert await program.end() == 0
    assert talk(program) == ["start a", "start b", "stop b", "stop a"]


@misbehaving("no-stop")
async def test_a_service_that_fails_to_stop_keeps_no_other_from_it(program: Program) -> None:
    """The others are stopped all the same."""
    await program.read_until("ready")
    program.process.send_signal(signal.SIGTERM)
    assert await program.end() == 0
    assert talk(program) == IN_ORDER


@pytest.mark.parametrize("program", ["slow-stop", "stuck-stop"], indirect=True)
async def test_a_second_signal_kills_at_once(program: Program) -> None:
    """Even where the loop itself is stuck."""
    await program.read_until("ready")
    program.process.send_signal(signal.SIGINT)
    await program.read_until("stop b")
    program.process.send_signal(signal.SIGINT)
    assert await program.end() == -signal.SIGINT
    assert "stop a" not in program.lines
