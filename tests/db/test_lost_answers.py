"""What becomes of a task when an answer was lost, or when a cancel crosses the end of a try."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from detectsched.attempt import Ending, Refused, Started
from detectsched.db.accept import accept
from detectsched.db.connection import Ledger
from detectsched.db.reads import get_task
from detectsched.db.results import end
from detectsched.db.starts import start
from detectsched.db.transitions import cancel, recover
from detectsched.task import DEFAULT_TENANT, Delivery, TaskError, TaskState
from tests.support.actors import new_text


async def begin(ledger: Ledger) -> Started:
    """Accept a text and start its first delivery."""
    [accepted] = await accept(ledger, [new_text(1)])
    [started] = await start(ledger, [Delivery(accepted.task.id, 1, "text", "1-1")], runner="r1")
    assert isinstance(started, Started)
    return started


async def state_of(ledger: Ledger, task_id: UUID) -> str:
    """Return a task's state."""
    view = await get_task(ledger, DEFAULT_TENANT, task_id)
    assert view is not None
    return view.task.state


async def test_a_start_whose_answer_was_lost_is_recovered_under_a_later_delivery(ledger: Ledger) -> None:
    """The first runner gave the task back without knowing that it runs, the second died before its start."""
    started = await begin(ledger)
    task_id = started.delivery.task_id
    assert await recover(ledger, [(task_id, 2)], max_attempts=3) == {task_id: TaskState.QUEUED}


async def test_a_started_task_is_taken_over_after_its_time_to_live(ledger: Ledger) -> None:
    """It was started in time: the next delivery runs it, instead of leaving it running in nobody's hands."""
    started = await begin(ledger)
    async with ledger.connection() as connection:
        await connection.execute("UPDATE task SET expires_at = now() - interval '1 second'")
    [again] = await start(ledger, [replace(started.delivery, number=2)], runner="r2")
    assert isinstance(again, Started)
    assert again.fence == started.fence + 1


async def test_one_task_delivered_twice_is_started_once(ledger: Ledger) -> None:
    """Two deliveries of a task in one group of starts: the newer one runs, the other is told that it is stale."""
    [row, other] = await accept(ledger, [new_text(1), new_text(2)])
    first = Delivery(row.task.id, 1, "text", "1-1")
    twin, newer, beside = (
        replace(first, entry_id="1-2"),
        replace(first, number=2),
        replace(first, task_id=other.task.id),
    )
    answers = await start(ledger, [first, beside, newer, twin, newer], runner="r1")
    assert [isinstance(answer, Started) for answer in answers] == [False, True, True, False, False]
    assert [answer for answer in answers if isinstance(answer, Refused)] == [Refused.STALE] * 3
    assert {answer.fence for answer in answers if isinstance(answer, Started)} == {1}


@pytest.mark.parametrize("spends_attempt", [False, True])
async def test_a_task_that_shall_be_cancelled_does_not_wait_again(ledger: Ledger, *, spends_attempt: bool) -> None:
    """Its tenant was told 202: a try that is given back or goes wrong afterwards ends it, as cancelled."""
    started = await begin(ledger)
    task_id = started.delivery.task_id
    assert await cancel(ledger, DEFAULT_TENANT, task_id) is TaskState.RUNNING
    back = Ending(task_id, DEFAULT_TENANT, started.fence, TaskState.QUEUED, spends_attempt=spends_attempt)
    assert await end(ledger, [back]) == [True]
    view = await get_task(ledger, DEFAULT_TENANT, task_id)
    assert view is not None
    assert (view.task.state, view.task.finished_at is not None) == (TaskState.CANCELLED, True)
    assert await start(ledger, [replace(started.delivery, number=2)], runner="r2") == [Refused.ENDED]


@pytest.mark.parametrize("detail", ["cut off at \x00", "no character: \udcff"])
async def test_an_error_may_quote_any_bytes(ledger: Ledger, detail: str) -> None:
    """What PostgreSQL cannot store in a text must not keep the end of a task from being written."""
    started = await begin(ledger)
    task_id = started.delivery.task_id
    error = TaskError("engine_failed", detail)
    assert await end(ledger, [Ending(task_id, DEFAULT_TENANT, started.fence, TaskState.FAILED, error=error)]) == [True]
    assert await state_of(ledger, task_id) == TaskState.FAILED
