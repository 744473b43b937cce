"""How equal the shares of work are: Jain's index over windows in which the same queues wait throughout.

Jain, Chiu, Hawe 1984: (Σx)² ÷ (n·Σx²), 1 when all are equal, 1/n when one has everything. x is the work a queue was
given in a window, in measured seconds, divided by its weight. Only those count that had something waiting during the
whole window: who wants less than its share gets less, and that is no unfairness.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from detectsched.simulate.arrivals import Floats, Integers, Tasks
from detectsched.simulate.record import Record
from detectsched.task import QueueKind

ROUNDS: Final = 20
"""A window is as long as it takes to give each waiting queue this many large tasks (of the 95th percentile): a round
serves everybody at least once, also those whose tasks are large."""


@dataclass(frozen=True, slots=True)
class Fairness:
    """Jain's index over ``windows`` windows: the mean, weighted by how many queues each compared, and the lowest."""

    mean: float
    lowest: float
    windows: int


def jain_index(shares: Floats) -> float:
    """Return Jain's index of some shares; 1 for none at all."""
    squares = float(np.sum(shares**2))
    return float(np.sum(shares)) ** 2 / (len(shares) * squares) if squares > 0 else 1.0


def fairness_of_devices(tasks: Tasks, record: Record, lane: str, capacity: float) -> Fairness | None:
    """Compare the devices of each tenant in a lane; None where never two waited together for a window.

    Devices with a limit or a rate, and objects, are left out: they may not use what they are entitled to.
    """
    devices = tasks.devices
    names = {name: number for number, name in enumerate(dict.fromkeys(one.queue.tenant for one in devices))}
    counted = np.array(
        [
            one.lane == lane
            and one.queue.kind is QueueKind.MAC
            and not one.entitlement.limit
            and not one.entitlement.rate
            for one in devices
        ]
    )
    group = np.array([names[one.queue.tenant] for one in devices], dtype=np.int64)
    weight = np.array([one.entitlement.weight for one in devices])
    mine = counted[tasks.device]
    return _compare(_Service(tasks, record, mine, tasks.device[mine], weight, group), capacity)


def fairness_of_tenants(tasks: Tasks, record: Record, lane: str, capacity: float) -> Fairness | None:
    """Compare the tenants that have work in a lane; None where never two waited together for a window."""
    devices = tasks.devices
    names = {name: number for number, name in enumerate(dict.fromkeys(one.queue.tenant for one in devices))}
    owner = np.array([names[one.queue.tenant] for one in devices], dtype=np.int64)
    weight = np.ones(len(names))
    for one in devices:
        weight[names[one.queue.tenant]] = one.entitlement.tenant_weight
    mine = np.array([one.lane == lane for one in devices])[tasks.device]
    everybody = np.zeros(len(names), dtype=np.int64)
    return _compare(_Service(tasks, record, mine, owner[tasks.device[mine]], weight, everybody), capacity)


class _Service:
    """When each owner (a queue or a tenant) had something waiting, and what it was given when."""

    def __init__(
        self, tasks: Tasks, record: Record, mine: np.ndarray, owner: Integers, weight: Floats, group: Integers
    ) -> None:
        taken = np.where(np.isnan(record.first_start), record.ended_at, record.first_start)[mine]
        arrival = tasks.arrival[mine]
        known = ~np.isnan(taken)
        self.large = float(np.quantile(tasks.seconds[mine], 0.95)) if len(arrival) else 0.0
        self.weight, self.group = weight, group
        started = ~np.isnan(record.first_start[mine])
        order = np.argsort(taken[started], kind="stable")
        self.start, self.start_owner = taken[started][order], owner[started][order]
        self.start_seconds = tasks.seconds[mine][started][order]
        self.owner, self.begin, self.end = _waiting(owner[known], arrival[known], taken[known])
        self._begins, self._ends = np.sort(self.begin), np.sort(self.end)

    def waiting_at(self, now: float) -> int:
        """Return how many owners wait at a moment."""
        return int(np.searchsorted(self._begins, now, "right") - np.searchsorted(self._ends, now, "right"))

    def next_beginning(self, now: float) -> float | None:
        """Return when the next owner begins to wait."""
        index = int(np.searchsorted(self._begins, now, "right"))
        return float(self._begins[index]) if index < len(self._begins) else None

    def given(self, begin: float, end: float) -> tuple[Integers, Floats]:
        """Return the owners that waited throughout, and what each was given per weight."""
        there = self.owner[(self.begin <= begin) & (self.end >= end)]
        low, high = np.searchsorted(self.start, [begin, end])
        work = np.bincount(self.start_owner[low:high], weights=self.start_seconds[low:high], minlength=len(self.weight))
        return there, (work / self.weight)[there]


def _waiting(owner: Integers, arrival: Floats, taken: Floats) -> tuple[Integers, Floats, Floats]:
    """Return the stretches in which an owner has something waiting: (owner, begin, end)."""
    owners = np.concatenate([owner, owner])
    times = np.concatenate([arrival, taken])
    change = np.concatenate([np.ones(len(owner)), -np.ones(len(owner))])
    order = np.lexsort((-change, times, owners))
    owners, times, change = owners[order], times[order], change[order]
    level = np.cumsum(change)  # every owner's own changes add up to zero, so that one sum serves all
    ends = np.flatnonzero(level == 0)
    begins = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
    return owners[ends], times[begins], times[ends]


def _compare(service: _Service, capacity: float) -> Fairness | None:
    indices: list[float] = []
    compared: list[int] = []
    now = service.next_beginning(-1.0)
    while now is not None:
        waiting = service.waiting_at(now)
        if waiting < 2:
            now = service.next_beginning(now)
            continue
        window = ROUNDS * waiting * service.large / capacity
        there, given = service.given(now, now + window)
        if 2 * len(there) < max(service.waiting_at(now + share * window) for share in (0.25, 0.5, 0.75)):
            # More have come than stayed: the window is too short for so many, and says nothing.
            now += window / ROUNDS
            continue
        groups = service.group[there]
        for group in np.unique(groups):
            shares = given[groups == group]
            if len(shares) >= 2:
                indices.append(jain_index(shares))
                compared.append(len(shares))
        now += window
    if not indices:
        return None
    return Fairness(float(np.average(indices, weights=compared)), min(indices), len(indices))
