"""Workloads that are built in: each shows one thing, and takes seconds to a few minutes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from detectsched.simulate.workload import (
    AtOnce,
    AtRandom,
    Bursts,
    ChoiceCost,
    DeviceClass,
    FixedCost,
    Lane,
    LognormalCost,
    Outage,
    Poisson,
    RunnerClass,
    Subject,
    Workload,
    Zipf,
)

_FAST: Final = 0.005  # seconds per standard task of text
_FOUR_SLOTS: Final = (RunnerClass(slots={"text": 4}),)


def flood(tasks: int = 10_000, quiet: int = 99) -> Workload:
    """One device floods at the beginning; quiet ones submit one task each while its backlog lasts."""
    lasts = tasks * _FAST / 4
    return Workload(
        name="flood",
        title=f"one device submits {tasks:,} tasks at once, {quiet} others one each at random moments",
        hours=lasts / 3600,
        lanes={"text": Lane(seconds_per_cost=_FAST)},
        runners=_FOUR_SLOTS,
        classes=(
            DeviceClass(name="flood", arrivals=AtOnce(tasks=tasks)),
            DeviceClass(name="quiet", devices=quiet, arrivals=AtRandom(tasks=1, until_seconds=lasts)),
        ),
    )


def bursts(tasks: int = 10_000, devices: int = 99, burst: int = 10) -> Workload:
    """One device floods; the others submit ten tasks each at random moments while its backlog lasts."""
    lasts = tasks * _FAST / 4
    spread = AtRandom(tasks=burst, together=True, until_seconds=lasts)
    return _bursting("bursts", "at random moments", tasks, devices, lasts, spread)


def together(tasks: int = 10_000, devices: int = 99, burst: int = 10) -> Workload:
    """One device floods; the others submit ten tasks each at the same moment."""
    return _bursting("together", "at the same moment", tasks, devices, tasks * _FAST / 4, AtOnce(tasks=burst))


def _bursting(name: str, when: str, tasks: int, devices: int, lasts: float, arrivals: AtOnce | AtRandom) -> Workload:
    return Workload(
        name=name,
        title=f"one device submits {tasks:,} tasks at once, {devices} others {arrivals.tasks} each {when}",
        hours=lasts / 3600,
        lanes={"text": Lane(seconds_per_cost=_FAST)},
        runners=_FOUR_SLOTS,
        classes=(
            DeviceClass(name="flood", arrivals=AtOnce(tasks=tasks)),
            DeviceClass(name="bursts", devices=devices, arrivals=arrivals),
        ),
    )


def zipf(tasks: int = 20_000, devices: int = 100) -> Workload:
    """Devices submit by Zipf's law with exponent 1.5, every second one tasks that cost twenty times as much."""
    return Workload(
        name="zipf",
        title=f"{tasks:,} tasks of {devices} devices by Zipf 1.5, costs 1 and 20",
        hours=0.1,
        lanes={"text": Lane(seconds_per_cost=_FAST, noise=0.2)},
        runners=_FOUR_SLOTS,
        classes=(
            DeviceClass(
                name="all",
                devices=devices,
                arrivals=Zipf(tasks=tasks, exponent=1.5, until_seconds=tasks * 0.0015),
                cost=ChoiceCost(costs=(1.0, 20.0)),
            ),
        ),
    )


def tenants(tasks: int = 10_000) -> Workload:
    """Tenants share first: one flooding device against ten thousand devices with one task, and objects against one."""
    return Workload(
        name="tenants",
        title=f"tenant a: one device with {tasks:,} tasks; b: {tasks:,} devices with one; c: one task, later",
        hours=0.1,
        lanes={"text": Lane(seconds_per_cost=_FAST)},
        runners=_FOUR_SLOTS,
        classes=(
            DeviceClass(name="a-flood", tenant="a", arrivals=AtOnce(tasks=tasks)),
            DeviceClass(name="b-devices", tenant="b", devices=tasks, arrivals=AtOnce(tasks=1)),
            DeviceClass(name="b-objects", tenant="b", devices=tasks, subject=Subject.OBJECT, arrivals=AtOnce(tasks=1)),
            DeviceClass(name="c-one", tenant="c", arrivals=AtOnce(tasks=1, at_seconds=1.0017)),
        ),
    )


def weights() -> Workload:
    """Three devices of weights 1, 2 and 4, all with more to do than they get, for longer than the original's cap."""
    return Workload(
        name="weights",
        title="three devices of weights 1, 2 and 4, twice as much to do as there is room for",
        hours=0.4,
        lanes={"text": Lane(seconds_per_cost=1.0, noise=0.2)},
        runners=(RunnerClass(slots={"text": 2}),),
        classes=tuple(
            DeviceClass(name=f"weight-{weight}", weight=weight, arrivals=Poisson(per_hour=5000)) for weight in (1, 2, 4)
        ),
    )


def costs() -> Workload:
    """Two kinds of devices, all with more to do than they get; the tasks of one kind cost twenty times as much."""
    return Workload(
        name="costs",
        title="ten devices with tasks of cost 1 and ten with tasks of cost 20, more to do than there is room for",
        hours=0.2,
        lanes={"text": Lane(seconds_per_cost=0.1, noise=0.2)},
        runners=(RunnerClass(slots={"text": 1}),),
        classes=(
            DeviceClass(name="cost-1", devices=10, arrivals=Poisson(per_hour=2400)),
            DeviceClass(name="cost-20", devices=10, arrivals=Poisson(per_hour=600), cost=FixedCost(cost=20)),
        ),
    )


def outage() -> Workload:
    """All runners are away for two minutes, and a device floods meanwhile."""
    return Workload(
        name="outage",
        title="four runners die together for two minutes; a device floods meanwhile",
        hours=0.2,
        lanes={"text": Lane(seconds_per_cost=0.25, noise=0.3)},
        runners=(RunnerClass(count=4, slots={"text": 2}, outages=(Outage(at_seconds=120, for_seconds=120),)),),
        classes=(
            DeviceClass(name="steady", devices=100, arrivals=Poisson(per_hour=720)),
            DeviceClass(name="flood", arrivals=AtOnce(tasks=2000, at_seconds=150)),
        ),
    )


def mixed() -> Workload:
    """Build a whole fleet: cameras, phones, uploaders in bursts, objects, two lanes, runners that die now and then."""
    return Workload(
        name="mixed",
        title="2,000 devices and 200 objects, images and texts, runners that live for two hours on average",
        hours=0.25,
        lanes={"ocr": Lane(seconds_per_cost=0.35, noise=0.3), "text": Lane(seconds_per_cost=0.01, noise=0.3)},
        runners=(
            RunnerClass(count=14, slots={"ocr": 1}, mtbf_hours=2.0),
            RunnerClass(count=2, slots={"text": 1}, mtbf_hours=2.0),
        ),
        classes=(
            DeviceClass(
                name="cameras",
                devices=1500,
                lane="ocr",
                arrivals=Poisson(per_hour=60),
                cost=LognormalCost(median=0.9, sigma=0.5, at_most=8),
            ),
            DeviceClass(name="phones", devices=490, arrivals=Poisson(per_hour=120)),
            DeviceClass(
                name="uploaders",
                devices=10,
                lane="ocr",
                arrivals=Bursts(tasks=300, every_seconds=1200),
                cost=LognormalCost(median=1.2, sigma=0.5, at_most=8),
            ),
            DeviceClass(name="objects", devices=200, subject=Subject.OBJECT, arrivals=Poisson(per_hour=60)),
        ),
    )


GENERATORS: Final[dict[str, Callable[[], Workload]]] = {
    "flood": flood,
    "bursts": bursts,
    "together": together,
    "zipf": zipf,
    "tenants": tenants,
    "weights": weights,
    "costs": costs,
    "outage": outage,
    "mixed": mixed,
}
