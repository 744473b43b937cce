"""The alarm for engines that read nothing."""

from __future__ import annotations

from itertools import chain, cycle, islice, repeat

import pytest

from detectsched.runner.empty_rate import EmptyRate


def alarms(images: list[bool]) -> list[int]:
    """Return at which images the alarm goes off."""
    rate = EmptyRate()
    return [number for number, empty in enumerate(images) if rate.add(empty)]


@pytest.mark.parametrize("every", [2, 3, 10])
def test_an_engine_that_begins_to_read_nothing_is_noticed_within_fifty_images(every: int) -> None:
    """Whatever share has usually no text; once, not at every image."""
    usual = [number % every == 0 for number in range(600)]
    (noticed,) = alarms([*usual, *repeat(True, 300)])
    assert 600 < noticed <= 650


def test_usual_ups_and_downs_are_no_alarm() -> None:
    """Neither a constant share nor bursts of photographs shorter than what is looked at."""
    assert alarms(list(islice(cycle([True, False, False]), 3000))) == []
    bursts = list(chain.from_iterable([*repeat(False, 180), *repeat(True, 15)] for _ in range(20)))
    assert alarms(bursts) == []


def test_nothing_is_said_before_it_is_known_what_is_usual() -> None:
    """A fleet of cameras that see no text is no failure."""
    assert alarms([True] * 2000) == []


def test_a_fleet_that_has_really_changed_becomes_the_usual() -> None:
    """After one alarm; a later failure is noticed again."""
    rate = EmptyRate()
    for empty in [*repeat(False, 600), *repeat(True, 1000)]:
        rate.add(empty)
    assert not rate.alarmed
    for _ in range(1200):
        rate.add(False)
    assert sum(rate.add(True) for _ in range(60)) == 1
