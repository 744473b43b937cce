"""From a workload to the very tasks that arrive: deterministic by seed, the same for every policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from detectsched.errors import ConfigurationError
from detectsched.simulate.workload import (
    MAX_TASKS,
    AtOnce,
    AtRandom,
    Bursts,
    ChoiceCost,
    DeviceClass,
    FixedCost,
    Poisson,
    Subject,
    Workload,
    Zipf,
)
from detectsched.task import Entitlement, QueueId

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_FIRST_MAC: Final = 0x02_DE_7E_C7_00_00_00 >> 8  # locally administered
_NAMES: Final = 10_007  # stream of random numbers for names; classes use their own index


@dataclass(frozen=True, slots=True)
class Device:
    """One device (or object) of a class, with its queue and what that is entitled to."""

    kind: int
    """Index of its class in the workload."""
    queue: QueueId
    lane: str
    mac: str | None
    entitlement: Entitlement


@dataclass(frozen=True, slots=True)
class Tasks:
    """All tasks of a simulation in the order in which they arrive; one element per task in every array.

    ``arrival`` in seconds, ``device`` index into ``devices``, ``cost`` as estimated, ``seconds`` as it really takes on
    a runner of speed 1.
    """

    devices: tuple[Device, ...]
    arrival: Floats
    device: Integers
    cost: Floats
    seconds: Floats

    def __len__(self) -> int:
        return len(self.arrival)

    @property
    def kind(self) -> Integers:
        """Index of each task's class."""
        return np.array([device.kind for device in self.devices], dtype=np.int64)[self.device]


def make_tasks(workload: Workload, seed: int) -> Tasks:
    """Draw the tasks of a workload.

    Each class draws from a stream of random numbers of its own, so that adding a class leaves the others as they were.

    Raises:
        ConfigurationError: there would be more than `MAX_TASKS`.
    """
    parts: list[tuple[Floats, Integers, Floats, Floats]] = []
    horizon, first = workload.hours * 3600, 0
    if sum(_expected(kind, horizon) for kind in workload.classes) > MAX_TASKS:
        raise ConfigurationError(f"the workload makes more than {MAX_TASKS:,} tasks: shorten it or submit less")
    devices = _devices(workload, seed)
    for number, kind in enumerate(workload.classes):
        random = np.random.default_rng([seed, number])
        arrival, device = _arrivals(kind, horizon, random)
        cost = _costs(kind, device, random)
        parts.append((arrival, device + first, cost, cost * kind.really * _noise(workload, kind, len(cost), random)))
        first += kind.devices
    arrival, device, cost, seconds = (np.concatenate([part[i] for part in parts]) for i in range(4))
    order = np.argsort(arrival, kind="stable")
    return Tasks(devices, arrival[order], device[order].astype(np.int64), cost[order], seconds[order])


def _devices(workload: Workload, seed: int) -> tuple[Device, ...]:
    # Queues of equal key are served in the order of their names: shuffled, or the first class would always come first.
    total = sum(kind.devices for kind in workload.classes)
    names = iter(np.random.default_rng([seed, _NAMES]).permutation(total).tolist())
    devices = []
    for number, kind in enumerate(workload.classes):
        entitlement = Entitlement(
            limit=kind.limit,
            weight=kind.weight,
            rate=kind.rate,
            burst=kind.burst,
            tenant_weight=kind.tenant_weight,
        )
        for _ in range(kind.devices):
            name = next(names)
            if kind.subject is Subject.OBJECT:
                queue, mac = QueueId.of_object(kind.tenant, f"object {name:07d}"), None
            else:
                mac = _mac(name)
                queue = QueueId.of_device(kind.tenant, kind.lane, mac)
            devices.append(Device(number, queue, kind.lane, mac, entitlement))
    return tuple(devices)


def _mac(number: int) -> str:
    digits = f"{_FIRST_MAC + number:012x}"
    return ":".join(digits[i : i + 2] for i in range(0, 12, 2))


def _expected(kind: DeviceClass, horizon: float) -> float:
    how = kind.arrivals
    if isinstance(how, Poisson):
        return kind.devices * how.per_hour * horizon / 3600
    if isinstance(how, Bursts):
        return kind.devices * how.tasks * (horizon / how.every_seconds + 1)
    return how.tasks if isinstance(how, Zipf) else kind.devices * how.tasks


def _arrivals(kind: DeviceClass, horizon: float, random: np.random.Generator) -> tuple[Floats, Integers]:
    """Return when tasks arrive, and from which device of the class, in no particular order."""
    everyone, how = np.arange(kind.devices), kind.arrivals
    if isinstance(how, AtOnce):
        device = np.repeat(everyone, how.tasks)
        return np.full(len(device), how.at_seconds), device
    if isinstance(how, AtRandom):
        device = np.repeat(everyone, how.tasks)
        moments = random.uniform(how.from_seconds, how.until_seconds, kind.devices if how.together else len(device))
        return (moments[device] if how.together else moments), device
    if isinstance(how, Poisson):
        count = int(random.poisson(kind.devices * how.per_hour * horizon / 3600))
        return random.uniform(0, horizon, count), random.integers(0, kind.devices, count)
    if isinstance(how, Bursts):
        return _bursts(how, kind.devices, horizon, random)
    shares = (1.0 + everyone) ** -how.exponent
    counts = np.maximum(1, np.rint(how.tasks * shares / shares.sum())).astype(np.int64)
    device = np.repeat(everyone, counts)
    return random.uniform(how.from_seconds, max(how.from_seconds, how.until_seconds), len(device)), device


def _bursts(how: Bursts, devices: int, horizon: float, random: np.random.Generator) -> tuple[Floats, Integers]:
    first = random.uniform(0, how.every_seconds, devices)
    times = [np.arange(start, horizon, how.every_seconds) for start in first]
    device = np.repeat(np.arange(devices), [len(own) for own in times])
    return np.repeat(np.concatenate(times), how.tasks), np.repeat(device, how.tasks)


def _costs(kind: DeviceClass, device: Integers, random: np.random.Generator) -> Floats:
    how = kind.cost
    if isinstance(how, FixedCost):
        return np.full(len(device), how.cost)
    if isinstance(how, ChoiceCost):
        return np.array(how.costs)[device % len(how.costs)]
    drawn = random.lognormal(np.log(how.median), how.sigma, len(device))
    return np.clip(drawn, 0.01, how.at_most)


def _noise(workload: Workload, kind: DeviceClass, count: int, random: np.random.Generator) -> Floats:
    lane = workload.lanes[kind.lane]
    if lane.noise == 0:
        return np.full(count, lane.seconds_per_cost)
    return lane.seconds_per_cost * random.lognormal(-(lane.noise**2) / 2, lane.noise, count)
