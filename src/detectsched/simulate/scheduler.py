"""What the engine asks of whatever decides who is next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from detectsched.simulate.machines import Runner

_EPOCH_MS: Final = 1_700_000_000_000


@dataclass(slots=True)
class VirtualClock:
    """The simulation's time; called, it says milliseconds since the epoch, as Redis TIME would."""

    seconds: float = 0.0

    def __call__(self) -> int:
        """Return the time as scripts are told it."""
        return self.ms_at(self.seconds)

    def ms_at(self, seconds: float) -> int:
        """Return another time in the same form."""
        # Whole milliseconds come back from sums of binary fractions a little short.
        return _EPOCH_MS + int(seconds * 1000 + 1e-6)

    def seconds_until(self, milliseconds: float) -> float:
        """Return the virtual time at which so many milliseconds of the scripts' clock will have passed."""
        return (self() - _EPOCH_MS + milliseconds) / 1000


@dataclass(slots=True)
class LaneNews:
    """The runners on which the dispatcher counts in a lane; ``waiting`` tasks might be started there, not more."""

    runners: Sequence[Runner]
    waiting: int
    returned: bool = False
    """Somebody serves it again after nobody did."""


@dataclass(slots=True)
class News:
    """What has happened at one moment, in the order in which a scheduler is to learn it; tasks by their index."""

    arrived: list[int] = field(default_factory=list)
    finished: list[tuple[int, float]] = field(default_factory=list)
    """Each with the seconds it took."""
    lost: list[int] = field(default_factory=list)
    """The leases of their dead runners are over."""
    due: bool = False
    """Something that was put off until now may go on."""
    lanes: dict[str, LaneNews] = field(default_factory=dict)
    """The lanes in which something may be started; without runners: nobody serves it."""


@dataclass(slots=True)
class Decisions:
    """What was decided: tasks started on runners, tasks ended without being run, and when to look again by itself."""

    started: list[tuple[int, Runner]] = field(default_factory=list)
    expired: list[int] = field(default_factory=list)
    dead: list[int] = field(default_factory=list)
    next_due: float | None = None


class Scheduler(Protocol):
    """Decides who is next, in the time of the virtual clock."""

    async def step(self, news: News) -> Decisions:
        """Learn what has happened, and decide what to start now."""
        ...

    async def close(self) -> None:
        """Let go of everything."""
        ...
