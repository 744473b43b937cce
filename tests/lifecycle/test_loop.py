"""What a loop does when its turn fails, and how it waits between turns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise

import pytest
from structlog.testing import capture_logs

from detectsched import lifecycle, telemetry
from detectsched.clock import monotonic
from detectsched.errors import StoreUnavailable
from detectsched.lifecycle import Loop
from detectsched.telemetry import Sparing
from tests.support.waiting import wait_until


class Scripted(Loop):
    """A loop whose turns are given from outside."""

    def __init__(self, turn: Callable[[int], object], interval_seconds: float = 0.001) -> None:
        super().__init__(interval_seconds)
        self.turns = 0
        self._turn = turn

    async def run_once(self) -> None:
        """Do the next turn."""
        self.turns += 1
        self._turn(self.turns)


def away(until: int) -> Callable[[int], object]:
    """Make turns that meet no store before the turn ``until``."""

    def turn(number: int) -> None:
        if number < until:
            raise StoreUnavailable(f"no store at turn {number}")

    return turn


@pytest.fixture(autouse=True)
def _nobody_has_said_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the lines of other tests: a process says only once a second that a store is away."""
    monkeypatch.setattr(lifecycle, "AWAY", Sparing())
    monkeypatch.setattr(lifecycle, "BACK", Sparing())


async def test_a_store_that_is_away_is_retried_with_one_log_line_a_streak() -> None:
    """Four failures in a row: one warning, then one line that it is back."""
    with capture_logs() as logs:
        loop = Scripted(away(until=5))
        await loop.start()
        await wait_until(lambda: loop.turns >= 7, "turns after the store came back")
        await loop.stop()
    assert [(line["log_level"], line["event"]) for line in logs] == [
        ("warning", "store unavailable, will retry"),
        ("info", "store available again"),
    ]
    assert logs[0]["error"] == "no store at turn 1"
    assert logs[1]["failures"] == 4


async def test_a_loop_that_was_not_heard_still_says_that_the_store_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another, as a request, has spoken of the absence: without this line it would never seem to end."""
    spoken = Sparing()
    assert spoken.lets()
    monkeypatch.setattr(lifecycle, "AWAY", spoken)
    with capture_logs() as logs:
        loop = Scripted(away(until=2))
        await loop.start()
        await wait_until(lambda: loop.turns >= 3, "turns after the store came back")
        await loop.stop()
    assert [line["event"] for line in logs] == ["store available again"]


async def test_loops_that_meet_the_same_outage_say_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of ten loops one speaks in a second, and it says that the store is back."""
    monkeypatch.setattr(telemetry, "monotonic", lambda: 1.0)
    with capture_logs() as logs:
        loops = [Scripted(away(until=3)) for _ in range(10)]
        for loop in loops:
            await loop.start()
        await wait_until(lambda: all(loop.turns >= 3 for loop in loops), "every loop at work again")
        for loop in loops:
            await loop.stop()
    assert [line["log_level"] for line in logs] == ["warning", "info"]


async def test_a_store_that_is_away_inside_a_task_group_is_the_same() -> None:
    """A TaskGroup wraps what its tasks raise; that must not look like a bug."""

    def turn(number: int) -> None:
        if number == 1:
            raise ExceptionGroup("tasks", [StoreUnavailable("a"), ExceptionGroup("more", [StoreUnavailable("b")])])

    loop = Scripted(turn)
    await loop.start()
    await wait_until(lambda: loop.turns > 1, "another turn after the group")
    await loop.stop()


async def test_a_bug_ends_the_loop() -> None:
    """Whoever waits gets the exception itself, and no further turn is made."""

    def turn(number: int) -> None:
        raise ValueError(f"bug at turn {number}")

    loop = Scripted(turn)
    await loop.start()
    with pytest.raises(ValueError, match="bug at turn 1"):
        await loop.wait()
    await loop.stop()
    assert loop.turns == 1


async def test_a_bug_beside_an_absent_store_ends_the_loop() -> None:
    """A group with anything else in it is not taken for an absent store."""

    def turn(_: int) -> None:
        raise ExceptionGroup("tasks", [StoreUnavailable("a"), KeyError("bug")])

    loop = Scripted(turn)
    await loop.start()
    with pytest.raises(ExceptionGroup):
        await loop.wait()
    await loop.stop()
    assert loop.turns == 1


async def test_a_dead_loop_is_logged_once() -> None:
    """By whoever waited, or else by stop."""

    def turn(_: int) -> None:
        raise ValueError("bug")

    with capture_logs() as logs:
        loop = Scripted(turn)
        await loop.start()
        await wait_until(lambda: loop.turns == 1, "the turn")
        await loop.stop()
        await loop.start()
        with pytest.raises(ValueError, match="bug"):
            await loop.wait()
        await loop.stop()
    assert [line["event"] for line in logs] == ["service had failed"]


async def test_a_wake_up_during_a_turn_is_not_lost() -> None:
    """The next turn follows at once, not after the interval."""
    loop = Scripted(lambda number: loop.wake() if number == 1 else None, interval_seconds=60)
    await loop.start()
    await wait_until(lambda: loop.turns == 2, "the second turn", timeout=5)
    await loop.stop()


async def test_a_wake_up_begins_a_turn() -> None:
    """A loop in its pause is woken."""
    loop = Scripted(lambda _: None, interval_seconds=60)
    await loop.start()
    await wait_until(lambda: loop.turns == 1, "the first turn")
    loop.wake()
    await wait_until(lambda: loop.turns == 2, "the second turn")
    await loop.stop()


async def test_wake_ups_do_not_make_a_hot_loop_of_an_absent_store() -> None:
    """Each wake-up during an outage may hurry one retry; turns that wake themselves are still paced."""

    def turn(_: int) -> None:
        loop.wake()
        raise StoreUnavailable("away")

    loop = Scripted(turn)
    began = monotonic()
    await loop.start()
    await wait_until(lambda: loop.turns >= 5, "five tries")
    await loop.stop()
    assert monotonic() - began > 4 * 0.05, "retries are at least 50 ms apart"


async def test_stop_during_a_failing_turn_does_not_wait_for_the_back_off() -> None:
    """The stop arrives while the turn is under way, which then fails: there is no pause after it."""
    entered, go_on = asyncio.Event(), asyncio.Event()
    waits: list[float] = []

    class Slow(Loop):
        async def run_once(self) -> None:
            entered.set()
            await go_on.wait()
            raise StoreUnavailable("away")

        async def _wait_for_wake(self, seconds: float) -> None:
            waits.append(seconds)
            await super()._wait_for_wake(seconds)

    loop = Slow(interval_seconds=60)
    await loop.start()
    await entered.wait()
    stopping = asyncio.create_task(loop.stop())
    await wait_until(lambda: loop._stopping, "the stop to arrive")
    go_on.set()
    await stopping
    assert waits == []


async def test_intervals_are_jittered() -> None:
    """No two processes sweep in step."""
    times: list[float] = []
    loop = Scripted(lambda _: times.append(monotonic()), interval_seconds=0.02)
    await loop.start()
    await wait_until(lambda: len(times) > 10, "ten turns")
    await loop.stop()
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert max(gaps) - min(gaps) > 0.0005
