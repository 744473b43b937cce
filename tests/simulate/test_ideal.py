"""Ideal processor sharing and Jain's index, on cases that can be worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from detectsched.simulate.arrivals import Tasks, make_tasks
from detectsched.simulate.fairness import fairness_of_devices, fairness_of_tenants, jain_index
from detectsched.simulate.ideal import ideal_finish
from detectsched.simulate.measures import quantile
from detectsched.simulate.record import Record
from detectsched.simulate.workload import AtOnce, DeviceClass, Lane, RunnerClass, Workload


def tasks_of(*classes: DeviceClass) -> Tasks:
    """Return tasks that take a second per unit of cost."""
    workload = Workload(
        name="test",
        lanes={"text": Lane(seconds_per_cost=1.0)},
        runners=(RunnerClass(slots={"text": 1}),),
        classes=classes,
    )
    return make_tasks(workload, 1)


def device(name: str, tasks: int, **fields: object) -> DeviceClass:
    """Return a device with so many tasks."""
    at = float(str(fields.pop("at", 0.0)))
    return DeviceClass.model_validate({"name": name, "arrivals": AtOnce(tasks=tasks, at_seconds=at), **fields})


def test_equal_devices_share_equally() -> None:
    """Of 5 and 10 seconds of work at capacity 1, the first ends at 10, the second at 15."""
    assert ideal_finish(tasks_of(device("a", 5), device("b", 10)), "text", 1.0) == pytest.approx([10, 15])


def test_a_late_device_shares_from_then_on() -> None:
    """Alone for 4 s, then halves: 2 s of work come in at 4 and end at 8; the first has 6 left of 10 and ends at 12."""
    assert ideal_finish(tasks_of(device("a", 10), device("b", 2, at=4.0)), "text", 1.0) == pytest.approx([12, 8])


def test_weights_divide_the_capacity() -> None:
    """At capacity 4, weights 1 and 3: 9 seconds of work end at 3, when the other has 3 of its 6, which take 0.75."""
    made = tasks_of(device("a", 6), device("b", 9, weight=3.0))
    assert ideal_finish(made, "text", 4.0) == pytest.approx([3.75, 3.0])


def test_tenants_share_first() -> None:
    """Two devices of one tenant get together what the other tenant's one gets."""
    made = tasks_of(device("a", 4, tenant="one"), device("b", 4, tenant="one"), device("c", 4, tenant="two"))
    assert ideal_finish(made, "text", 1.0) == pytest.approx([12, 12, 8])


def test_jains_index() -> None:
    """One when all are equal, one nth when one has it all."""
    assert jain_index(np.array([3.0, 3.0, 3.0])) == pytest.approx(1.0)
    assert jain_index(np.array([5.0, 0.0, 0.0, 0.0])) == pytest.approx(0.25)
    assert jain_index(np.array([1.0, 2.0])) == pytest.approx(0.9)
    assert jain_index(np.zeros(3)) == 1.0


def test_fairness_sees_who_is_served() -> None:
    """Serving by turns gives an index of one; one device after the other gives one half, for devices and tenants."""
    made = tasks_of(device("a", 100, tenant="one"), device("b", 100, tenant="two"))
    same = tasks_of(device("a", 100), device("b", 100))

    def record(order: np.ndarray) -> Record:
        found = Record.empty(made, [])
        found.first_start[order] = np.arange(200.0)
        return found

    mine, other = np.flatnonzero(made.device == 0), np.flatnonzero(made.device == 1)
    by_turns = record(np.stack([mine, other], axis=1).ravel())
    in_a_row = record(np.concatenate([mine, other]))
    for fairness, tasks in ((fairness_of_tenants, made), (fairness_of_devices, same)):
        equal, unequal = fairness(tasks, by_turns, "text", 1.0), fairness(tasks, in_a_row, "text", 1.0)
        assert equal is not None
        assert unequal is not None
        assert equal.mean == pytest.approx(1.0, abs=0.01)
        assert unequal.mean == pytest.approx(0.5, abs=0.01)
    # Two devices of two tenants have nobody to be compared with.
    assert fairness_of_devices(made, by_turns, "text", 1.0) is None


def test_quantiles_are_values_that_occur() -> None:
    """The smallest value that at least the share does not exceed."""
    values = np.arange(1.0, 101.0).astype(np.float64)
    assert [quantile(values, share) for share in (0.0, 0.5, 0.99, 1.0)] == [1, 50, 99, 100]
    assert quantile(np.array([7.0]), 0.99) == 7.0
