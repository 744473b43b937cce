"""The life of a task in the ledger: every transition compares state and fence."""

from __future__ import annotations

import asyncio

from detectsched.attempt import Ending, EngineRead, Refused, Started
from detectsched.db.accept import accept
from detectsched.db.connection import Ledger
from detectsched.db.reads import TaskFilter, get_task, list_tasks
from detectsched.db.results import end, save_reads
from detectsched.db.starts import start
from detectsched.db.transitions import cancel, expire_due, recover
from detectsched.db.word_lists import load, publish
from detectsched.detection import Box, Detection, EngineResult, Hit, Line, ListVersion
from detectsched.task import DEFAULT_TENANT, Delivery, TaskError, TaskState, new_task_id
from detectsched.wordlist import Word
from tests.support.actors import new_text

RESULT = EngineResult("fake", "1", (Line("two words", Box(1, 2, 3, 4), 0.9),), 100, 50, 0.1)


async def begin(ledger: Ledger, number: int = 1, *, key: str | None = None) -> Started:
    """Accept a text and start it."""
    [accepted] = await accept(ledger, [new_text(1, key=key)])
    [started] = await start(ledger, [Delivery(accepted.task.id, number, "text", "1-1")], runner="r1")
    assert isinstance(started, Started)
    return started


async def test_acceptance_keeps_the_order_given(ledger: Ledger) -> None:
    """Sequences grow in the order of the batch."""
    batch = [new_text(number % 3) for number in range(50)]
    accepted = await accept(ledger, batch)
    assert [row.task.id for row in accepted] == [task.id for task in batch]
    sequences = [row.task.sequence for row in accepted]
    assert sequences == sorted(set(sequences))


async def test_an_idempotency_key_yields_its_first_task(ledger: Ledger) -> None:
    """The same key gives the same task: later, in one batch, and in fifty concurrent transactions."""
    [first] = await accept(ledger, [new_text(1, key="k1")])
    again = await accept(ledger, [new_text(1, key="k1"), new_text(1, key="k2"), new_text(1, key="k2")])
    assert [row.is_new for row in again] == [False, True, False]
    assert again[0].task.id == first.task.id
    assert again[1].task.id == again[2].task.id
    race = await asyncio.gather(*(accept(ledger, [new_text(1, key="k3")]) for _ in range(50)))
    assert len({rows[0].task.id for rows in race}) == 1
    assert sum(rows[0].is_new for rows in race) == 1


async def test_each_start_mints_a_fence_and_only_its_holder_can_end_the_task(ledger: Ledger) -> None:
    """A newer delivery takes a running task over; whatever the older start writes is refused."""
    zombie = await begin(ledger)
    [heir] = await start(ledger, [Delivery(zombie.delivery.task_id, 2, "text", "2-1")], runner="r2")
    assert isinstance(heir, Started)
    assert heir.fence == zombie.fence + 1
    [late] = await start(ledger, [Delivery(zombie.delivery.task_id, 1, "text", "1-1")], runner="r1")
    assert late is Refused.STALE
    task_id = zombie.delivery.task_id
    assert await save_reads(ledger, [EngineRead(task_id, DEFAULT_TENANT, zombie.fence, RESULT)]) == [False]
    assert await end(ledger, [Ending(task_id, DEFAULT_TENANT, zombie.fence, TaskState.SUCCEEDED)]) == [False]
    assert await end(ledger, [Ending(task_id, DEFAULT_TENANT, heir.fence, TaskState.SUCCEEDED)]) == [True]
    assert await end(ledger, [Ending(task_id, DEFAULT_TENANT, heir.fence, TaskState.FAILED)]) == [False]
    [ended] = await start(ledger, [Delivery(task_id, 3, "text", "3-1")], runner="r1")
    assert ended is Refused.ENDED


async def test_a_result_is_stored_whole(ledger: Ledger) -> None:
    """Engine result, detection and hits come back as they were written."""
    await publish(ledger, DEFAULT_TENANT, "words", [Word("two", "c", 2)], name="Words", is_default=True, by="test")
    started = await begin(ledger)
    version = ListVersion("words", 1)
    assert started.lists == (version,)
    assert (await load(ledger, DEFAULT_TENANT, version)).words == (Word("two", "c", 2),)
    task_id = started.delivery.task_id
    assert await save_reads(ledger, [EngineRead(task_id, DEFAULT_TENANT, started.fence, RESULT)]) == [True]
    hit = Hit("two", "c", 2, 0, 3, "two", version, Box(1, 2, 3, 4))
    ending = Ending(
        task_id, DEFAULT_TENANT, started.fence, TaskState.SUCCEEDED, detection=Detection((hit,), (version,))
    )
    assert await end(ledger, [ending]) == [True]
    view = await get_task(ledger, DEFAULT_TENANT, task_id)
    assert view is not None
    assert view.engine is not None
    assert view.detection is not None
    assert (view.engine.text, view.detection.hit_count, view.detection.top_level) == ("two words", 1, 2)
    assert [(row.word, row.start_offset, row.box) for row in view.hits] == [("two", 0, [1, 2, 3, 4])]
    assert await get_task(ledger, "another", task_id) is None
    assert [hits for _, hits in await list_tasks(ledger, DEFAULT_TENANT, TaskFilter(has_hits=True), limit=10)] == [1]


async def test_a_retry_finds_what_the_engine_read(ledger: Ledger) -> None:
    """A task that is tried again starts with the engine result of the earlier try and its attempt counted."""
    started = await begin(ledger)
    task_id = started.delivery.task_id
    await save_reads(ledger, [EngineRead(task_id, DEFAULT_TENANT, started.fence, RESULT)])
    error = TaskError("database_away", "could not write")
    await end(
        ledger,
        [Ending(task_id, DEFAULT_TENANT, started.fence, TaskState.QUEUED, spends_attempt=True, error=error)],
    )
    [again] = await start(ledger, [Delivery(task_id, 2, "text", "2-1")], runner="r1")
    assert isinstance(again, Started)
    assert (again.read, again.attempts) == (RESULT, 1)


async def test_a_lost_runner_costs_an_attempt_and_the_last_one_kills(ledger: Ledger) -> None:
    """Recovery queues a running task again, leaves others as they are, and gives up after the last attempt."""
    started = await begin(ledger)
    [waiting] = await accept(ledger, [new_text(2)])
    task_id = started.delivery.task_id
    lost = [(task_id, 1), (waiting.task.id, 1)]
    assert await recover(ledger, lost, max_attempts=2) == {
        task_id: TaskState.QUEUED,
        waiting.task.id: TaskState.QUEUED,
    }
    await start(ledger, [Delivery(task_id, 2, "text", "2-1")], runner="r2")
    assert await recover(ledger, [(task_id, 1)], max_attempts=2) == {task_id: TaskState.RUNNING}
    assert await recover(ledger, [(task_id, 2)], max_attempts=2) == {task_id: TaskState.DEAD}


async def test_cancel_and_expiry_touch_only_what_waits(ledger: Ledger) -> None:
    """A waiting task is cancelled at once, a running one is asked; nobody else's; expiry leaves running ones alone."""
    started = await begin(ledger)
    [waiting] = await accept(ledger, [new_text(2)])
    assert await cancel(ledger, "another", waiting.task.id) is None
    assert await cancel(ledger, DEFAULT_TENANT, waiting.task.id) is TaskState.CANCELLED
    assert await cancel(ledger, DEFAULT_TENANT, waiting.task.id) is None
    assert await cancel(ledger, DEFAULT_TENANT, started.delivery.task_id) is TaskState.RUNNING
    assert await cancel(ledger, DEFAULT_TENANT, new_task_id()) is None
    [old] = await accept(ledger, [new_text(3)])
    async with ledger.connection() as connection:
        await connection.execute("UPDATE task SET expires_at = now() - interval '1 second'")
    assert await expire_due(ledger, limit=10) == [old.task.id]
    assert await expire_due(ledger, limit=10) == []
