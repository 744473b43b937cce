"""Simulated runners: their slots, their speed, and when they are dead."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from detectsched.simulate.workload import RunnerClass, Workload


@dataclass(slots=True)
class Runner:
    """One runner while the simulation goes on; it is dead in each of ``outages`` (from, until; seconds).

    ``known`` says whether the dispatcher counts on it: a runner that died is known until its record has expired, and
    one that comes back is known at once, under another consumer name.
    """

    number: int
    slots: dict[str, int]
    speed: float
    outages: tuple[tuple[float, float], ...]
    alive: bool = True
    known: bool = True
    boot: int = 0
    running: dict[int, str] = field(default_factory=dict)
    """Tasks it works on, and the lane of each."""
    busy: dict[str, int] = field(default_factory=dict)
    """Slots in use, per lane."""

    @property
    def consumer(self) -> str:
        """Its name in the consumer group."""
        return f"simulated:{self.number}:{self.boot}"

    def free(self, lane: str) -> int:
        """Return how many more tasks of a lane it can start now."""
        return self.slots.get(lane, 0) - self.busy.get(lane, 0) if self.alive else 0

    def start(self, task: int, lane: str) -> None:
        """Take a slot for a task."""
        self.running[task] = lane
        self.busy[lane] = self.busy.get(lane, 0) + 1

    def end(self, task: int) -> None:
        """Free the slot of a task."""
        self.busy[self.running.pop(task)] -= 1


def make_runners(workload: Workload, seed: int) -> list[Runner]:
    """Build the runners of a workload, with their planned and random outages; the same for every policy."""
    random = np.random.default_rng([seed, 20_011])
    runners: list[Runner] = []
    for kind in workload.runners:
        for index in range(kind.count):
            outages = _planned(kind, index) + _random(kind, workload.hours * 3600, random)
            runners.append(Runner(len(runners), dict(kind.slots), kind.speed, _merged(outages)))
    return runners


def _planned(kind: RunnerClass, index: int) -> list[tuple[float, float]]:
    return [
        (outage.at_seconds, outage.at_seconds + outage.for_seconds)
        for outage in kind.outages
        if outage.runners is None or index < outage.runners
    ]


def _random(kind: RunnerClass, horizon: float, random: np.random.Generator) -> list[tuple[float, float]]:
    if kind.mtbf_hours == 0:
        return []
    outages, now = [], 0.0
    while (now := now + random.exponential(kind.mtbf_hours * 3600)) < horizon:
        until = now + random.exponential(kind.mttr_seconds)
        outages.append((now, until))
        now = until
    return outages


def _merged(outages: list[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    merged: list[tuple[float, float]] = []
    for start, end in sorted(outages):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)
