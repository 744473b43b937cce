"""How many runners a lane should have."""

from __future__ import annotations

from typing import Any

import pytest

from detectsched.queueing.queue import Scaling, WorkerRecord, concerned, paused_runner, scaling_of
from detectsched.settings import RunnerSettings
from detectsched.task import LaneBacklog, QueueId

BACKLOG = LaneBacklog(waiting=100, waiting_cost=200.0, running=2, running_cost=4.0, oldest_wait_seconds=12.0)


def worker(slots: str, state: str = "healthy") -> WorkerRecord:
    """Return a runner with these slots."""
    return WorkerRecord("h", 1, 0, 0.0, 0.0, 1, 0.0, 1, 1, 0.0, 0, "now", consumer="h:1:b", slots=slots, state=state)


def scaling(backlog: LaneBacklog = BACKLOG, lane: str = "ocr", **changes: Any) -> Scaling:
    """Return what would be asked for at 3 s a task, within a minute."""
    usual: dict[str, Any] = {
        "seconds_per_cost": 3.0,
        "workers": (),
        "runner": RunnerSettings(ocr_slots=2, text_slots=32),
        "target_seconds": 60.0,
        "paused": False,
    }
    return scaling_of(lane, backlog, **{**usual, **changes})


def test_seconds_of_work_over_the_target() -> None:
    """⌈204 × 3 s ÷ (60 s × 2 slots)⌉; the backlog itself counts without what runs."""
    found = scaling()
    assert (found.desired, found.backlog, found.backlog_seconds, found.oldest_wait_seconds) == (6, 100, 600.0, 12.0)


@pytest.mark.parametrize(
    ("changes", "desired"),
    [
        ({"workers": [worker("ocr=4"), worker("ocr=2"), worker("text=9")]}, 4),
        ({"workers": [worker("ocr=4"), worker("ocr=1", "stopping")]}, 3),
        ({"lane": "text"}, 1),
        ({"target_seconds": 6.0}, 51),
        ({"seconds_per_cost": None}, 1),
        ({"seconds_per_cost": None, "backlog": LaneBacklog(running=5)}, 3),
        ({"backlog": LaneBacklog()}, 0),
        ({"backlog": LaneBacklog(), "seconds_per_cost": None}, 0),
        ({"backlog": LaneBacklog(waiting=1, waiting_cost=0.1)}, 1),
        ({"backlog": LaneBacklog(running=7, running_cost=7.0)}, 4),
        ({"paused": True}, 1),
        ({"paused": True, "backlog": LaneBacklog(waiting=5, waiting_cost=5.0)}, 0),
    ],
)
def test_how_many(changes: dict[str, Any], desired: int) -> None:
    """By the runners there are, never fewer than what runs occupies, none when there is nothing to do."""
    found = scaling(**changes)
    assert found.desired == desired
    assert found.reason


def test_what_a_pause_concerns() -> None:
    """A device in every lane, an object whose name has a colon, nothing for a runner."""
    lanes = ("ocr", "text")
    device = [QueueId.of_device("acme", lane, "aa:bb") for lane in lanes]
    assert concerned("subject:acme:aa:bb", lanes) == (lanes, tuple(device))
    assert concerned("subject:acme:object:a:b", lanes) == (lanes, (QueueId.of_object("acme", "a:b"),))
    assert concerned("tenant:acme", lanes) == (lanes, ())
    assert concerned("lane:text", lanes) == (("text",), ())
    assert concerned(paused_runner("gpu-1"), lanes) == ((), ())
