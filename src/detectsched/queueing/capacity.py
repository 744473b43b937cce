"""How much work a lane can take now, from what its runners say of themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from detectsched.queueing.registry import WorkerRecord
from detectsched.settings import NoRunner, SchedulerSettings

_THERE: Final = ("healthy", "busy")
"""A busy runner comes back by itself; one that stops, or that has lost its GPU, does not."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """``slots`` of the lane's healthy runners that may read it, busy ones included, and the consumers they belong to.

    What other consumers hold is not counted against the slots: it is finished by runners that take nothing new, or
    returns by its lease. ``has_runner`` is False when nobody is there at all; runners that are merely pressed or full
    are there. ``cpu_admitted`` says whether runners without a GPU may read the lane.
    """

    slots: int = 0
    consumers: tuple[str, ...] = ()
    has_runner: bool = False
    cpu_admitted: bool = True


def capacity_of(lane: str, workers: Sequence[WorkerRecord], settings: SchedulerSettings) -> Capacity:
    """Add up the slots of the runners that serve a lane.

    A lane for GPUs is served by runners that have one; with cpu_fallback, and while there is none, by the others.
    """
    there = [worker for worker in workers if worker.slots_of(lane) > 0 and worker.state in _THERE]
    cpu_admitted = True
    if lane in settings.gpu_lanes:
        with_gpu = [worker for worker in there if worker.gpu_available]
        healthy_gpu = any(worker.state == "healthy" for worker in with_gpu)
        cpu_admitted = settings.no_runner is NoRunner.CPU_FALLBACK and not healthy_gpu
        if not cpu_admitted:
            there = with_gpu
    serving = [worker for worker in there if worker.state == "healthy"]
    return Capacity(
        slots=sum(worker.slots_of(lane) for worker in serving),
        consumers=tuple(worker.consumer for worker in serving),
        has_runner=bool(there),
        cpu_admitted=cpu_admitted,
    )
