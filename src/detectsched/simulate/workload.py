"""What is simulated: classes of devices and what they submit, lanes, runners and their failures.

A workload is a TOML file of this shape (docs/fairness.md shows one), or comes from `generators`. Times are virtual
seconds from the beginning; cost is in standard tasks, as everywhere.
"""

from __future__ import annotations

import tomllib
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import Field, ValidationError, model_validator

from detectsched.errors import ConfigurationError
from detectsched.settings import Group
from detectsched.task import DEFAULT_TENANT

MAX_TASKS: Final = 5_000_000
"""More than this is refused: a task takes about half a millisecond of simulation and half a kilobyte of Valkey."""

_NAME: Final = r"^[a-z0-9_-]{1,32}$"
_LANE: Final = r"^[a-z][a-z0-9_]{0,31}$"
_LaneName = Annotated[str, Field(pattern=_LANE)]


class AtOnce(Group):
    """Every device submits ``tasks`` at the same moment."""

    kind: Literal["at_once"] = "at_once"
    tasks: int = Field(1, ge=1)
    at_seconds: float = Field(0.0, ge=0)


class AtRandom(Group):
    """Every device submits ``tasks``, together in one burst or each for itself, at uniformly random moments."""

    kind: Literal["at_random"] = "at_random"
    tasks: int = Field(1, ge=1)
    together: bool = False
    from_seconds: float = Field(0.0, ge=0)
    until_seconds: float = Field(gt=0)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.until_seconds < self.from_seconds:
            raise ValueError("until_seconds is before from_seconds")
        return self


class Poisson(Group):
    """Every device submits ``per_hour`` tasks on average, independently, for as long as the simulation lasts."""

    kind: Literal["poisson"] = "poisson"
    per_hour: float = Field(gt=0)


class Bursts(Group):
    """Every device submits ``tasks`` at once, every ``every_seconds`` from a random first time on."""

    kind: Literal["bursts"] = "bursts"
    tasks: int = Field(ge=1)
    every_seconds: float = Field(gt=0)


class Zipf(Group):
    """``tasks`` in all, of which the device of rank r submits a share in proportion to r^−exponent (at least one).

    They come at uniformly random moments; all at once where both are the same.
    """

    kind: Literal["zipf"] = "zipf"
    tasks: int = Field(ge=1)
    exponent: float = Field(1.5, gt=0, le=10)
    from_seconds: float = Field(0.0, ge=0)
    until_seconds: float = Field(0.0, ge=0)


class FixedCost(Group):
    """Every task costs the same."""

    kind: Literal["fixed"] = "fixed"
    cost: float = Field(1.0, gt=0, le=1000)


class ChoiceCost(Group):
    """Every device has one of these costs, by turns: with (1, 20) every second device submits dear tasks."""

    kind: Literal["choice"] = "choice"
    costs: tuple[Annotated[float, Field(gt=0, le=1000)], ...] = Field(min_length=1)


class LognormalCost(Group):
    """Costs around a median, as image sizes are; at most ``at_most``."""

    kind: Literal["lognormal"] = "lognormal"
    median: float = Field(1.0, gt=0, le=1000)
    sigma: float = Field(0.5, ge=0, le=3)
    at_most: float = Field(50.0, gt=0, le=1000)


class Subject(StrEnum):
    """Whose queues a class has."""

    DEVICE = "device"
    """Any number of a device's tasks may run at once, unless ``limit`` says otherwise."""
    OBJECT = "object"
    """One task of an object at a time."""


class DeviceClass(Group):
    """Devices (or objects) that behave alike and are reported together.

    ``really`` is what a task truly takes, as a multiple of its estimated cost: the scripts are told the estimate when
    it is queued and the measured seconds when it is done.
    """

    name: str = Field(pattern=_NAME)
    devices: int = Field(1, ge=1, le=1_000_000)
    tenant: str = Field(DEFAULT_TENANT, pattern=_NAME)
    lane: _LaneName = "text"
    subject: Subject = Subject.DEVICE
    weight: float = Field(1.0, gt=0, le=1000)
    tenant_weight: float = Field(1.0, gt=0, le=1000)
    limit: int = Field(0, ge=0)
    rate: float = Field(0.0, ge=0)
    burst: int = Field(0, ge=0)
    really: float = Field(1.0, gt=0, le=100)
    arrivals: Annotated[AtOnce | AtRandom | Poisson | Bursts | Zipf, Field(discriminator="kind")]
    cost: Annotated[FixedCost | ChoiceCost | LognormalCost, Field(discriminator="kind")] = FixedCost()


class Lane(Group):
    """How long a lane's work takes.

    ``seconds_per_cost`` on a runner of speed 1; each task's time varies around that by a log-normal factor of mean 1
    whose logarithm has the standard deviation ``noise``.
    """

    seconds_per_cost: float = Field(gt=0, le=3600)
    noise: float = Field(0.0, ge=0, le=2)


class Outage(Group):
    """From then on, and for so long, these runners of the class are dead; ``runners`` None means all of them."""

    at_seconds: float = Field(ge=0)
    for_seconds: float = Field(gt=0)
    runners: int | None = Field(None, ge=1)


class RunnerClass(Group):
    """Runners that are alike: which lanes with how many slots, how fast, and how often they die.

    ``mtbf_hours`` and ``mttr_seconds`` add exponentially distributed lives and repairs; 0: no random failures.
    """

    count: int = Field(1, ge=1, le=10_000)
    slots: dict[_LaneName, Annotated[int, Field(ge=1, le=1000)]] = Field(min_length=1)
    speed: float = Field(1.0, gt=0, le=1000)
    mtbf_hours: float = Field(0.0, ge=0)
    mttr_seconds: float = Field(120.0, gt=0)
    outages: tuple[Outage, ...] = ()


class Workload(Group):
    """Everything that one simulation is about; ``hours`` is how long devices submit."""

    name: str = Field(pattern=_NAME)
    title: str = ""
    hours: float = Field(1.0, gt=0, le=24 * 366)
    lanes: dict[_LaneName, Lane] = Field(min_length=1)
    runners: tuple[RunnerClass, ...] = Field(min_length=1)
    classes: tuple[DeviceClass, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = [one.name for one in self.classes]
        if len(set(names)) < len(names):
            raise ValueError("two classes have the same name")
        used = {one.lane for one in self.classes}
        served = {lane for runner in self.runners for lane in runner.slots}
        if unknown := sorted((used | served) - set(self.lanes)):
            raise ValueError(f"lanes does not say how long work takes in: {', '.join(unknown)}")
        if unserved := sorted(used - served):
            raise ValueError(f"no runner has slots for: {', '.join(unserved)}")
        return self

    def with_runners(self, *, count: int | None = None, slots: int | None = None) -> Workload:
        """Return the same with ``count`` runners of the first class, and ``slots`` in each of its lanes."""
        first = self.runners[0]
        changed = first.model_copy(
            update={"count": count or first.count, "slots": dict.fromkeys(first.slots, slots) if slots else first.slots}
        )
        return self.model_copy(update={"runners": (changed, *self.runners[1:])})


def load_workload(path: Path) -> Workload:
    """Read a workload file.

    Raises:
        ConfigurationError: it is not there, is not TOML, or says something that is not a workload; all mistakes are
            named at once.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is not TOML: {error}") from error
    content.setdefault("name", "".join(c if c.isalnum() else "-" for c in path.stem.lower())[:32] or "workload")
    try:
        return Workload.model_validate(content)
    except ValidationError as error:
        mistakes = (
            f"{'.'.join(map(str, item['loc'])) or 'workload'}: {item['msg']}"
            for item in error.errors(include_url=False, include_input=False)
        )
        raise ConfigurationError(f"{path} is not a workload:\n  " + "\n  ".join(mistakes)) from error
