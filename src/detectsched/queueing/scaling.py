"""How many runners a lane should have: pure, from its backlog and its measured pace."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from detectsched.queueing.registry import WorkerRecord
from detectsched.settings import RunnerSettings
from detectsched.task import LANE_TEXT, LaneBacklog

_GOING: Final = "stopping"


@dataclass(frozen=True, slots=True)
class Scaling:
    """``desired`` runners, and why.

    ``backlog`` counts the tasks that may start now and have not; ``backlog_seconds`` is how long one slot would work on
    them at the lane's measured pace, None while there is none.
    """

    desired: int
    backlog: int
    backlog_seconds: float | None
    oldest_wait_seconds: float
    reason: str


def scaling_of(
    lane: str,
    backlog: LaneBacklog,
    *,
    seconds_per_cost: float | None,
    workers: Sequence[WorkerRecord],
    runner: RunnerSettings,
    target_seconds: float,
    paused: bool,
) -> Scaling:
    """Return how many runners would work off a lane's backlog within the target.

    desired = ⌈seconds of work, what runs included ÷ (target × slots of a runner)⌉, but never fewer than what runs now
    occupies: a runner that is taken away gives its tasks back unfinished.

    Args:
        lane: its name.
        backlog: by the ledger.
        seconds_per_cost: the measured seconds of work per standard task.
        workers: the runners there are; those of the lane tell how many slots one has.
        runner: says how many slots one has where there is none to ask.
        target_seconds: within which the backlog should be worked off.
        paused: whether the lane is.
    """
    serving = [worker.slots_of(lane) for worker in workers if worker.slots_of(lane) > 0 and worker.state != _GOING]
    usual = runner.text_slots if lane == LANE_TEXT else runner.ocr_slots
    each = sum(serving) / len(serving) if serving else float(usual)
    work = None if seconds_per_cost is None else backlog.waiting_cost * seconds_per_cost
    occupied = math.ceil(backlog.running / each)
    if paused:
        desired, reason = occupied, f"the lane {lane} is paused: nothing is handed out"
    elif not backlog.waiting and not backlog.running:
        desired, reason = 0, "nothing waits and nothing runs"
    elif work is None or seconds_per_cost is None:
        desired = max(1, occupied)
        reason = f"no pace is measured yet: one runner is enough to measure it; {_tasks(backlog)}"
    else:
        everything = work + backlog.running_cost * seconds_per_cost
        desired = max(1, occupied, math.ceil(everything / (target_seconds * each)))
        reason = (
            f"{everything:.1f} s of work ({_tasks(backlog)}) over runners of {each:g} slots, to be worked off in "
            f"{target_seconds:g} s"
        )
    return Scaling(
        desired=desired,
        backlog=backlog.waiting,
        backlog_seconds=None if work is None else round(work, 3),
        oldest_wait_seconds=round(backlog.oldest_wait_seconds, 3),
        reason=reason,
    )


def _tasks(backlog: LaneBacklog) -> str:
    return f"{backlog.waiting} wait, {backlog.running} run"
