"""The figures of one run: waits per class, throughput, shares, utilisation, what never should have idled."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from detectsched.simulate.arrivals import Floats, Tasks
from detectsched.simulate.fairness import Fairness, fairness_of_devices, fairness_of_tenants
from detectsched.simulate.ideal import ideal_finish
from detectsched.simulate.record import End, Record
from detectsched.simulate.workload import AtOnce, AtRandom, Subject, Workload


@dataclass(frozen=True, slots=True)
class Waits:
    """Seconds from a task's arrival to its first start, or to its end where it never started."""

    p50: float
    p95: float
    p99: float
    longest: float


@dataclass(frozen=True, slots=True)
class ClassFigures:
    """One class (or all): ``work`` done in seconds on a runner of speed 1, ``rate`` in tasks a second.

    ``over_ideal`` compares each device's last finish with ideal processor sharing (`ideal`): the most by which a device
    of the class took longer than 1.1 times as long; None where that says nothing (no single burst per device, limits,
    runners that die).
    """

    name: str
    tasks: int
    done: int
    expired: int
    dead: int
    wait: Waits | None
    work: float
    rate: float
    over_ideal: float | None = None


@dataclass(frozen=True, slots=True)
class LaneFigures:
    """One lane: ``idle_with_work`` are slot-seconds unused while something that could have started waited."""

    lane: str
    utilisation: float
    idle_with_work: float
    devices: Fairness | None
    tenants: Fairness | None


@dataclass(frozen=True, slots=True)
class Figures:
    """Everything that is reported of one policy; ``seconds`` is when the last task ended, in virtual time.

    ``resumption`` is the longest time from a runner's return to a lane without any until the first start there.
    """

    policy: str
    seconds: float
    total: ClassFigures
    classes: tuple[ClassFigures, ...]
    lanes: tuple[LaneFigures, ...]
    restarts: int
    resumption: float | None

    def as_json(self) -> dict[str, Any]:
        """Return the same as plain data."""
        return asdict(self)


def quantile(ordered: Floats, share: float) -> float:
    """Return the smallest value that at least a share of all does not exceed; ``ordered`` ascends and is not empty."""
    return float(ordered[max(0, int(np.ceil(share * len(ordered) - 1e-9)) - 1)])


def waits_of(tasks: Tasks, record: Record) -> Floats:
    """Return every task's wait; NaN for those that had neither started nor ended when the simulation was given up."""
    taken = np.where(np.isnan(record.first_start), record.ended_at, record.first_start)
    waits: Floats = taken - tasks.arrival
    return waits


def capacity_of(workload: Workload, lane: str) -> float:
    """Return the seconds of work per second that all runners of a lane do together."""
    return sum(kind.count * kind.slots.get(lane, 0) * kind.speed for kind in workload.runners)


def ideal_of(workload: Workload, tasks: Tasks) -> Floats:
    """Return when each device's last task would be finished under ideal processor sharing."""
    finish = np.full(len(tasks.devices), np.nan)
    for lane in sorted({kind.lane for kind in workload.classes}):
        finish = np.fmax(finish, ideal_finish(tasks, lane, capacity_of(workload, lane)))
    return finish


def measure(policy: str, workload: Workload, tasks: Tasks, record: Record, ideal: Floats) -> Figures:
    """Work out the figures of a run; ``ideal`` is what `ideal_of` says of the same tasks."""
    span = float(np.nanmax(record.ended_at)) if record.ended_count else 0.0
    waits, kinds = waits_of(tasks, record), tasks.kind

    def of(name: str, mine: np.ndarray, over_ideal: float | None = None) -> ClassFigures:
        state = record.end_state[mine]
        done = int(np.sum(state == End.DONE))
        known = np.sort(waits[mine & ~np.isnan(waits)])
        return ClassFigures(
            name=name,
            tasks=int(np.sum(mine)),
            done=done,
            expired=int(np.sum(state == End.EXPIRED)),
            dead=int(np.sum(state == End.DEAD)),
            wait=Waits(*(quantile(known, share) for share in (0.5, 0.95, 0.99, 1.0))) if len(known) else None,
            work=float(np.sum(tasks.seconds[mine][state == End.DONE])),
            rate=done / span if span else 0.0,
            over_ideal=over_ideal,
        )

    lanes = sorted({kind.lane for kind in workload.classes})
    over = [_over_ideal(workload, tasks, record, number, ideal) for number in range(len(workload.classes))]
    return Figures(
        policy=policy,
        seconds=span,
        total=of("all", np.ones(len(tasks), dtype=bool)),
        classes=tuple(of(kind.name, kinds == number, over[number]) for number, kind in enumerate(workload.classes)),
        lanes=tuple(_lane(workload, tasks, record, lane) for lane in lanes),
        restarts=record.restarts,
        resumption=max(record.resumptions, default=None),
    )


def _over_ideal(workload: Workload, tasks: Tasks, record: Record, number: int, ideal: Floats) -> float | None:
    kind, how = workload.classes[number], workload.classes[number].arrivals
    one_burst = isinstance(how, AtOnce) or (isinstance(how, AtRandom) and (how.together or how.tasks == 1))
    undisturbed = not any(runner.mtbf_hours or runner.outages for runner in workload.runners)
    free = kind.subject is Subject.DEVICE and not kind.limit and not kind.rate
    mine = tasks.kind == number
    if not (one_burst and undisturbed and free and bool(np.all(record.end_state[mine] == End.DONE))):
        return None
    first, last = np.full(len(tasks.devices), np.inf), np.full(len(tasks.devices), -np.inf)
    np.minimum.at(first, tasks.device[mine], tasks.arrival[mine])
    np.maximum.at(last, tasks.device[mine], record.ended_at[mine])
    there = np.unique(tasks.device[mine])
    return float(np.max((last - first)[there] - 1.1 * (ideal - first)[there]))


def _lane(workload: Workload, tasks: Tasks, record: Record, lane: str) -> LaneFigures:
    use, capacity = record.lanes[lane], capacity_of(workload, lane)
    return LaneFigures(
        lane=lane,
        utilisation=use.utilisation,
        idle_with_work=use.idle_with_work,
        devices=fairness_of_devices(tasks, record, lane, capacity),
        tenants=fairness_of_tenants(tasks, record, lane, capacity),
    )
