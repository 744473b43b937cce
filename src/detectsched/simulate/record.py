"""What happened in one simulated run, task by task and lane by lane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from detectsched.simulate.arrivals import Floats, Integers, Tasks
from detectsched.simulate.machines import Runner


class End(IntEnum):
    """How a task ended."""

    OPEN = 0
    DONE = 1
    EXPIRED = 2
    """Its time to live passed before it was started."""
    DEAD = 3
    """Given up for want of a runner."""


@dataclass(slots=True)
class LaneUse:
    """Slot-seconds of one lane: of living runners, unused, and unused while work that could have started waited."""

    slots: float = 0.0
    idle: float = 0.0
    idle_with_work: float = 0.0

    @property
    def utilisation(self) -> float:
        """Share of the slot-seconds in which a task ran."""
        return 1 - self.idle / self.slots if self.slots else 0.0


@dataclass(slots=True)
class Record:
    """One element per task in every array, in virtual seconds; NaN for what did not happen.

    ``first_start`` ends a task's wait; ``last_start`` is another one only where a runner died. ``resumptions`` are the
    times from a runner's return to a lane that nobody served until the first start there.
    """

    first_start: Floats
    last_start: Floats
    ended_at: Floats
    end_state: NDArray[np.int8]
    runner: Integers
    lanes: dict[str, LaneUse]
    resumptions: list[float] = field(default_factory=list)
    restarts: int = 0
    ended_count: int = 0

    @classmethod
    def empty(cls, tasks: Tasks, runners: Sequence[Runner]) -> Record:
        """Return the record of a run that has not begun."""
        count = len(tasks)
        lanes = sorted({lane for runner in runners for lane in runner.slots} | {one.lane for one in tasks.devices})
        return cls(
            first_start=np.full(count, np.nan),
            last_start=np.full(count, np.nan),
            ended_at=np.full(count, np.nan),
            end_state=np.zeros(count, dtype=np.int8),
            runner=np.full(count, -1, dtype=np.int64),
            lanes={lane: LaneUse() for lane in lanes},
        )

    def account(self, lane: str, seconds: float, free: int, idle_with_work: int, runners: Sequence[Runner]) -> None:
        """Add a stretch of time in which nothing changed."""
        use = self.lanes[lane]
        use.slots += seconds * sum(runner.slots[lane] for runner in runners if runner.alive)
        use.idle += seconds * free
        use.idle_with_work += seconds * idle_with_work

    def start(self, task: int, runner: int, now: float) -> None:
        """Note that a task was started."""
        if np.isnan(self.first_start[task]):
            self.first_start[task] = now
        else:
            self.restarts += 1
        self.last_start[task] = now
        self.runner[task] = runner

    def end(self, task: int, state: End, now: float) -> None:
        """Note that a task has ended."""
        self.end_state[task] = state
        self.ended_at[task] = now
        self.ended_count += 1
