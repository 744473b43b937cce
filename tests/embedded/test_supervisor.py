"""Restarting what dies, giving up on what keeps dying, and saying so."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from detectsched.clock import monotonic
from detectsched.embedded.console import Console
from detectsched.embedded.supervisor import KeepsDying, Patience, Supervised, Together
from tests.support.contract import check_service_contract
from tests.support.waiting import wait_until

IMPATIENT = Patience(ready=0.5, quick=10.0, quick_deaths=3, first_pause=0.01, longest_pause=0.02)
FOREVER = "trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done"

Make = Callable[..., Supervised]


@pytest.fixture
def said() -> io.StringIO:
    """Give what stands on the console."""
    return io.StringIO()


@pytest.fixture
async def make(said: io.StringIO) -> AsyncIterator[Make]:
    """Make supervised shell scripts; they are stopped after the test."""
    made: list[Supervised] = []

    def script(
        text: str,
        *,
        ready: Callable[[], Awaitable[bool]] | None = None,
        patience: Patience = IMPATIENT,
        grace: float = 5.0,
        name: str = "script",
    ) -> Supervised:
        console = Console(said)
        made.append(
            Supervised(
                name,
                ["/bin/sh", "-c", text],
                environment=os.environ,
                console=console,
                ready=ready,
                patience=patience,
                grace=grace,
            )
        )
        return made[-1]

    yield script
    for service in made:
        await service.stop()


async def test_it_keeps_the_contract_of_services(make: Make) -> None:
    """Started twice, stopped twice, and all at once."""
    process = make(FOREVER)
    await check_service_contract(process, lambda: process.pid is not None, rounds=5)


async def test_a_dead_process_is_told_and_restarted(make: Make, said: io.StringIO) -> None:
    """Which one, how it ended, its last words; then it runs again."""
    process = make(FOREVER)
    await process.start()
    await wait_until(lambda: "ready" in said.getvalue(), "its first line")
    first = process.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    await wait_until(lambda: process.pid not in {None, first}, "another process", timeout=5)
    lines = said.getvalue().splitlines()
    assert "up         | script was ended by SIGKILL; its last words:" in lines
    assert "up         |   | ready" in lines
    assert any(line.startswith("up         | restarting script in 0.0") for line in lines)


async def test_a_process_that_keeps_dying_ends_the_supervision(make: Make, said: io.StringIO) -> None:
    """After as many quick deaths in a row as allowed, with its last words."""
    process = make("echo cannot work; exit 4")
    await process.start()
    with pytest.raises(KeepsDying, match=r"(?s)script died 3 times in a row.*exit status 4.*cannot work"):
        await process.wait()
    assert said.getvalue().count("script     | cannot work") == 3


async def test_deaths_after_a_good_life_are_not_counted(make: Make, tmp_path: Path) -> None:
    """Only quick deaths in a row mean that there is no point in going on."""
    count = tmp_path / "count"
    process = make(
        f"echo x >> {count}; sleep 0.05; exit 1", patience=Patience(quick=0.02, quick_deaths=2, first_pause=0.01)
    )
    await process.start()
    await wait_until(
        lambda: count.exists() and len(count.read_text().split()) > 4, "more lives than quick deaths allowed"
    )


async def test_pauses_grow(make: Make, tmp_path: Path) -> None:
    """A process that dies at once does not keep the machine busy."""
    patience = Patience(quick_deaths=5, first_pause=0.05, longest_pause=0.2)
    process = make("exit 1", patience=patience)
    began = monotonic()
    await process.start()
    with pytest.raises(KeepsDying):
        await process.wait()
    assert monotonic() - began > 0.75 * (0.05 + 0.1 + 0.2 + 0.2)


async def test_start_returns_when_it_is_ready(make: Make, tmp_path: Path) -> None:
    """Not before."""
    flag = tmp_path / "flag"

    async def ready() -> bool:
        return flag.exists()

    process = make(f"trap 'exit 0' TERM; sleep 0.2; touch {flag}; while :; do sleep 0.01; done", ready=ready)
    await process.start()
    assert flag.exists()


async def test_never_ready_is_an_error(make: Make) -> None:
    """With its last words."""

    async def never() -> bool:
        return False

    process = make(FOREVER, ready=never)
    with pytest.raises(KeepsDying, match=r"(?s)script is not ready after 0.5 s.*ready"):
        await process.start()


async def test_keeps_dying_before_it_is_ready_is_an_error(make: Make) -> None:
    """The start does not wait for what will not come."""

    async def never() -> bool:
        return False

    process = make("exit 9", ready=never, patience=Patience(ready=60, quick_deaths=2, first_pause=0.01))
    with pytest.raises(KeepsDying, match="exit status 9"):
        await process.start()


async def test_one_that_does_not_stop_is_killed_and_told(make: Make, said: io.StringIO) -> None:
    """Within its grace."""
    process = make("trap '' TERM; echo ready; while :; do sleep 0.01; done", grace=0.05)
    await process.start()
    await wait_until(lambda: "ready" in said.getvalue(), "the trap to be set")
    await process.stop()
    assert process.pid is None
    assert "script did not end within 0.05 s and was killed" in said.getvalue()


async def test_a_stop_during_the_pause_before_a_restart_restarts_nothing(make: Make, said: io.StringIO) -> None:
    """The pause is broken off."""
    process = make("exit 1", patience=Patience(first_pause=60, longest_pause=60))
    await process.start()
    await wait_until(lambda: "restarting script" in said.getvalue(), "the pause")
    await process.stop()
    assert process.pid is None


async def test_graces_of_processes_side_by_side_do_not_add_up(make: Make, said: io.StringIO) -> None:
    """Three that must be killed take the time of one."""
    stubborn = "trap '' TERM; echo ready; while :; do sleep 0.01; done"
    group = Together("group", [make(stubborn, grace=0.5, name=f"p{number}") for number in range(3)])
    await group.start()
    await wait_until(lambda: said.getvalue().count("ready") == 3, "the traps to be set")
    began = monotonic()
    await group.stop()
    assert monotonic() - began < 1.4


async def test_a_group_ends_with_its_first_dead(make: Make) -> None:
    """Whoever watches the group gets the exception."""
    group = Together("group", [make(FOREVER), make("exit 1")])
    await group.start()
    with pytest.raises(KeepsDying):
        await group.wait()
    await group.stop()


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


def test_lines_are_coloured_on_a_terminal_only() -> None:
    """A colour per process on a terminal, none elsewhere nor under NO_COLOR."""
    for stream, environment, coloured in (
        (Terminal(), {}, True),
        (io.StringIO(), {}, False),
        (Terminal(), {"NO_COLOR": "1"}, False),
    ):
        console = Console(stream, environment=environment)
        for name in ("api", "text"):
            console.writer(name)("hello")
        colours = {line.split("m")[0] for line in stream.getvalue().splitlines() if line.startswith("\x1b[")}
        assert len(colours) == (2 if coloured else 0)
        assert "api        | " in stream.getvalue()


def test_json_lines_stay_json() -> None:
    """No prefix is put before the lines of processes that write JSON."""
    stream = io.StringIO()
    Console(stream, prefixed=False).writer("api")('{"event": "x"}')
    assert stream.getvalue() == '{"event": "x"}\n'


def test_lines_may_go_elsewhere_than_words() -> None:
    """What processes write goes to the file, what the supervisor says to the terminal."""
    terminal, file = Terminal(), io.StringIO()
    console = Console(terminal, lines=file)
    console.writer("api")("chatter")
    console.say("api died")
    assert file.getvalue() == "api        | chatter\n"
    assert "api died" in terminal.getvalue()
    assert "chatter" not in terminal.getvalue()
    assert sys.stderr is not terminal
