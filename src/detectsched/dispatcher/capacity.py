"""How much work a lane can take now, from what its runners say of themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from detectsched.queueing.queue import WorkerRecord


@dataclass(frozen=True, slots=True)
class Capacity:
    """``slots`` of a lane's healthy runners, busy ones included, and the consumers that they belong to.

    What other consumers hold is not counted against the slots: it is finished by runners that take nothing new, or
    returns by its lease.
    """

    slots: int
    consumers: tuple[str, ...]


def capacity_of(lane: str, workers: Sequence[WorkerRecord]) -> Capacity:
    """Add up the slots of the healthy runners that serve a lane."""
    serving = [worker for worker in workers if worker.state == "healthy" and worker.slots_of(lane) > 0]
    return Capacity(sum(worker.slots_of(lane) for worker in serving), tuple(worker.consumer for worker in serving))
