"""The records of a start: the engine's and the detection's say how the latest start of a task stands, or ended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from detectsched.attempt import Ending, EngineRead, Started
from detectsched.db.accept import accept
from detectsched.db.connection import Ledger
from detectsched.db.reads import get_task
from detectsched.db.results import end, save_reads
from detectsched.db.starts import start
from detectsched.db.transitions import recover
from detectsched.detection import Box, Detection, EngineResult, Line
from detectsched.task import DEFAULT_TENANT, Delivery, TaskError, TaskKind, TaskState
from tests.support.actors import new_text

READ = EngineResult("fake", "1", (Line("words", Box(1, 2, 3, 4), 0.9),), 100, 50, 0.1)
BROKEN = TaskError("engine_error", "it broke")


async def begin(ledger: Ledger, kind: TaskKind = TaskKind.CALCULATE) -> Started:
    """Accept a task and start it."""
    wanted = replace(new_text(1), kind=kind, text=None, blob="a/blob", engine="fake")
    if kind is TaskKind.TEXT:
        wanted = new_text(1)
    [accepted] = await accept(ledger, [wanted])
    return await begin_again(ledger, Delivery(accepted.task.id, 1, "text", "1-1"))


async def begin_again(ledger: Ledger, delivery: Delivery) -> Started:
    """Start a task by a delivery."""
    [started] = await start(ledger, [delivery], runner="r1")
    assert isinstance(started, Started)
    return started


async def records(ledger: Ledger, started: Started) -> tuple[str | None, str | None, str | None]:
    """Return the state of both records, and the error of the detection's."""
    view = await get_task(ledger, DEFAULT_TENANT, started.delivery.task_id)
    assert view is not None
    assert view.detection is not None
    assert (view.detection.finished_at is None) == (view.detection.state == "processing")
    assert view.detection.fence == view.task.fence
    return view.engine.state if view.engine else None, view.detection.state, view.detection.error


def ending(started: Started, state: TaskState, *, spends: bool = False, error: TaskError | None = None) -> Ending:
    """Return an ending of a start."""
    found = Detection() if state is TaskState.SUCCEEDED else None
    return Ending(started.delivery.task_id, DEFAULT_TENANT, started.fence, state, spends, error, found)


async def test_a_text_is_processing_then_success(ledger: Ledger) -> None:
    """It needs no engine, so there is no engine record."""
    started = await begin(ledger, TaskKind.TEXT)
    assert await records(ledger, started) == (None, "processing", None)
    await end(ledger, [ending(started, TaskState.SUCCEEDED)])
    assert await records(ledger, started) == (None, "success", None)


async def test_a_calculation_goes_through_its_states_in_order(ledger: Ledger) -> None:
    """Both processing; then the engine's result is saved by itself; then the detection's."""
    started = await begin(ledger)
    assert await records(ledger, started) == ("processing", "processing", None)
    assert await save_reads(ledger, [EngineRead(started.delivery.task_id, DEFAULT_TENANT, started.fence, READ)])
    assert await records(ledger, started) == ("success", "processing", None)
    await end(ledger, [ending(started, TaskState.SUCCEEDED)])
    assert await records(ledger, started) == ("success", "success", None)


@pytest.mark.parametrize("state", [TaskState.FAILED, TaskState.DEAD])
async def test_an_engine_that_fails_fails_both(ledger: Ledger, state: TaskState) -> None:
    """And nothing else is written."""
    started = await begin(ledger)
    await end(ledger, [ending(started, state, spends=True, error=BROKEN)])
    assert await records(ledger, started) == ("failed", "failed", "it broke")


async def test_a_try_that_is_repeated_begins_anew(ledger: Ledger) -> None:
    """Failed, processing again under the next fence, and what the engine had read is not read again."""
    started = await begin(ledger)
    await end(ledger, [ending(started, TaskState.QUEUED, spends=True, error=BROKEN)])
    assert await records(ledger, started) == ("failed", "failed", "it broke")
    again = await begin_again(ledger, replace(started.delivery, number=2))
    assert await records(ledger, again) == ("processing", "processing", None)
    await save_reads(ledger, [EngineRead(started.delivery.task_id, DEFAULT_TENANT, again.fence, READ)])
    await end(ledger, [ending(again, TaskState.QUEUED, spends=True, error=BROKEN)])
    third = await begin_again(ledger, replace(started.delivery, number=3))
    assert third.read == READ
    assert await records(ledger, third) == ("success", "processing", None)


async def test_what_is_given_back_was_interrupted(ledger: Ledger) -> None:
    """A give-back that costs no attempt is no failure."""
    started = await begin(ledger)
    await end(ledger, [ending(started, TaskState.QUEUED)])
    assert await records(ledger, started) == ("interrupted", "interrupted", None)
    again = await begin_again(ledger, replace(started.delivery, number=2))
    await end(ledger, [ending(again, TaskState.QUEUED, error=TaskError("engine_unavailable", "install the model"))])
    assert await records(ledger, again) == ("interrupted", "interrupted", "install the model")
    view = await get_task(ledger, DEFAULT_TENANT, started.delivery.task_id)
    assert view is not None
    assert (view.task.attempts, view.task.error_reason) == (0, "engine_unavailable"), "seen while it waits"


async def test_what_a_lost_runner_had_has_failed(ledger: Ledger) -> None:
    """Its records do not go on saying that somebody works on it."""
    started = await begin(ledger)
    await recover(ledger, [(started.delivery.task_id, 1)], max_attempts=3)
    engine, detection, error = await records(ledger, started)
    assert (engine, detection) == ("failed", "failed")
    assert error == "runner r1 was silent for a lease while it worked on this task"


async def test_a_fenced_off_ending_leaves_the_records_alone(ledger: Ledger) -> None:
    """They are the successor's."""
    zombie = await begin(ledger)
    heir = await begin_again(ledger, replace(zombie.delivery, number=2))
    await end(ledger, [ending(zombie, TaskState.FAILED, spends=True, error=BROKEN)])
    assert await records(ledger, heir) == ("processing", "processing", None)
