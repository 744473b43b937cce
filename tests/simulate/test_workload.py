"""Workload files and what is drawn from them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from detectsched.errors import ConfigurationError
from detectsched.simulate.arrivals import make_tasks
from detectsched.simulate.generators import GENERATORS
from detectsched.simulate.workload import DeviceClass, Poisson, Workload, load_workload

GOOD = """
hours = 0.5
[lanes.ocr]
seconds_per_cost = 0.4
noise = 0.3
[[runners]]
count = 3
slots = { ocr = 2 }
mtbf_hours = 2
[[runners.outages]]
at_seconds = 60
for_seconds = 30
runners = 1
[[classes]]
name = "cameras"
devices = 40
lane = "ocr"
arrivals = { kind = "poisson", per_hour = 60 }
cost = { kind = "lognormal", median = 0.9 }
[[classes]]
name = "uploaders"
devices = 2
lane = "ocr"
weight = 2
arrivals = { kind = "bursts", tasks = 50, every_seconds = 600 }
"""


def write(directory: Path, text: str) -> Path:
    """Return a file with this text."""
    path = directory / "My load.toml"
    path.write_text(text)
    return path


def test_a_file_is_read(tmp_path: Path) -> None:
    """Every part of a file arrives; its name is the workload's unless it says another."""
    workload = load_workload(write(tmp_path, GOOD))
    assert workload.name == "my-load"
    assert workload.runners[0].outages[0].runners == 1
    tasks = make_tasks(workload, 1)
    assert np.all(np.diff(tasks.arrival) >= 0)
    assert np.sum(tasks.kind == 1) == 2 * 50 * 3
    assert np.sum(tasks.kind == 0) == pytest.approx(40 * 60 * 0.5, rel=0.15)
    assert float(np.median(tasks.cost[tasks.kind == 0])) == pytest.approx(0.9, rel=0.1)
    assert float(np.mean((tasks.seconds / tasks.cost)[tasks.kind == 0])) == pytest.approx(0.4, rel=0.05)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (("hours = 0.5", "hours = -1"), "hours: Input should be greater than 0"),
        (("weight = 2", "weight = 0"), "classes.1.weight"),
        (("weight = 2", "wieght = 2"), "classes.1.wieght: Extra inputs are not permitted"),
        (('kind = "poisson"', 'kind = "poison"'), "classes.0.arrivals"),
        (('name = "uploaders"', 'name = "cameras"'), "two classes have the same name"),
        (("slots = { ocr = 2 }", "slots = { text = 2 }"), "lanes does not say how long work takes in: text"),
        (("slots = { ocr = 2 }", "slots = { }"), "runners.0.slots"),
        (("hours = 0.5", "hours = "), "is not TOML"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, change: tuple[str, str], complaint: str) -> None:
    """The message names the file, the place and what is wrong."""
    with pytest.raises(ConfigurationError) as caught:
        load_workload(write(tmp_path, GOOD.replace(*change)))
    assert complaint in caught.value.detail
    assert "My load.toml" in caught.value.detail


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """So is a directory, and a file that is no text."""
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for name, complaint in (("nothing", "No such file"), (".", "Is a directory"), ("binary", "not TOML")):
        with pytest.raises(ConfigurationError, match=complaint):
            load_workload(tmp_path / name)


def test_a_lane_that_nobody_serves_is_refused(tmp_path: Path) -> None:
    """Its tasks would wait for ever."""
    text = GOOD.replace("[lanes.ocr]", "[lanes.text]\nseconds_per_cost = 1\n[lanes.ocr]")
    with pytest.raises(ConfigurationError, match="no runner has slots for: text"):
        load_workload(write(tmp_path, text.replace('devices = 2\nlane = "ocr"', "devices = 2")))


def test_too_much_is_refused_before_it_is_made() -> None:
    """A slip of the pen does not fill the memory."""
    flood = DeviceClass(name="a", devices=1_000_000, arrivals=Poisson(per_hour=10_000))
    workload = GENERATORS["flood"]().model_copy(update={"classes": (flood,)})
    with pytest.raises(ConfigurationError, match="5,000,000 tasks"):
        make_tasks(workload, 1)


@pytest.mark.parametrize("name", list(GENERATORS))
def test_built_in_workloads_can_be_made(name: str) -> None:
    """Each makes tasks of every class, the same for the same seed, under queue names of their own."""
    workload = GENERATORS[name]()
    assert workload.name == name
    first, again, other = make_tasks(workload, 1), make_tasks(workload, 1), make_tasks(workload, 2)
    assert set(first.kind.tolist()) == set(range(len(workload.classes)))
    assert np.array_equal(first.arrival, again.arrival)
    assert np.array_equal(first.seconds, again.seconds)
    assert [one.queue for one in first.devices] == [one.queue for one in again.devices]
    assert [one.queue for one in first.devices] != [one.queue for one in other.devices]
    assert len({one.queue for one in first.devices}) == len(first.devices)


def test_another_class_leaves_the_others_as_they_were() -> None:
    """Adding a class to a workload changes nothing about what the ones before it submit."""
    workload = GENERATORS["mixed"]()
    more = Workload.model_validate(
        {
            **workload.model_dump(),
            "classes": [
                *workload.model_dump()["classes"],
                {"name": "more", "arrivals": {"kind": "at_once", "tasks": 5, "at_seconds": 1}},
            ],
        }
    )
    before, after = make_tasks(workload, 3), make_tasks(more, 3)
    kept = after.kind < len(workload.classes)
    assert np.array_equal(before.arrival, after.arrival[kept])
    assert np.array_equal(before.seconds, after.seconds[kept])


def test_runners_and_slots_can_be_changed() -> None:
    """The first class of runners is changed, the others are kept."""
    workload = GENERATORS["mixed"]()
    changed = workload.with_runners(count=3, slots=5)
    assert (changed.runners[0].count, changed.runners[0].slots) == (3, {"ocr": 5})
    assert changed.runners[1] == workload.runners[1]
    assert workload.with_runners() == workload
