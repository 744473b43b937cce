"""Read this first: the life of a task, told in order, on a real Valkey and a real PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from detectsched.db.accept import accept
from detectsched.db.transitions import cancel
from detectsched.db.word_lists import publish
from detectsched.settings import Settings
from detectsched.task import DEFAULT_TENANT, TaskState
from detectsched.wordlist import Word
from tests.support.actors import new_text
from tests.support.system import System, dispatching, runner
from tests.support.waiting import wait_until


@pytest.fixture
async def system(settings: Settings) -> AsyncIterator[System]:
    """Give a system with a dispatcher and one word list, and no runner yet."""
    async with dispatching(settings) as running:
        await publish(
            running.ledger, DEFAULT_TENANT, "words", [Word("secret", "leak", 3)], name="W", is_default=True, by="test"
        )
        yield running


async def test_a_text_is_accepted_examined_and_remembered(system: System, settings: Settings) -> None:
    """A text waits until a runner comes, is started under a fence, matched, and ends with its hits stored."""
    [task_id] = await system.submit(new_text(1, "this is a secret"))
    assert await system.state(task_id) is TaskState.QUEUED
    async with runner(settings, "text"):
        view = await system.wait_for(task_id, TaskState.SUCCEEDED)
        await system.wait_until_at_rest()
    assert view.task.fence == 1
    assert [(hit.word, hit.start_offset, hit.end_offset, hit.level) for hit in view.hits] == [("secret", 10, 16, 3)]


async def test_a_new_version_of_a_list_judges_the_next_task(system: System, settings: Settings) -> None:
    """Publishing is enough: the next start sees the new version, and the result names it."""
    async with runner(settings, "text"):
        [before] = await system.submit(new_text(1, "secret plan"))
        await system.wait_for(before, TaskState.SUCCEEDED)
        await publish(
            system.ledger, DEFAULT_TENANT, "words", [Word("plan", "leak", 1)], name="W", is_default=True, by="test"
        )
        [after] = await system.submit(new_text(1, "secret plan"))
        view = await system.wait_for(after, TaskState.SUCCEEDED)
    assert [(hit.word, hit.list_version) for hit in view.hits] == [("plan", 2)]
    assert [(hit.word, hit.list_version) for hit in (await system.view(before)).hits] == [("secret", 1)]


async def test_many_devices_are_all_served(system: System, settings: Settings) -> None:
    """Hundreds of texts of a dozen devices all succeed, and Redis holds nothing of them afterwards."""
    task_ids = await system.submit(*(new_text(number % 12, f"text {number}") for number in range(300)))
    async with runner(settings, "text"), runner(settings, "text"):
        states = await system.wait_for_all(task_ids)
        await system.wait_until_at_rest()
    assert set(states) == {TaskState.SUCCEEDED}
    assert await system.queue.unknown(task_ids) == task_ids


async def test_a_waiting_task_is_cancelled_at_once(system: System, settings: Settings) -> None:
    """A cancelled task is never started, and what waits behind it is."""
    first, second = await system.submit(new_text(1), new_text(1))
    assert await cancel(system.ledger, DEFAULT_TENANT, first) is TaskState.CANCELLED
    await system.queue.scripts.withdraw([first])
    async with runner(settings, "text"):
        await system.wait_for(second, TaskState.SUCCEEDED)
    assert (await system.view(first)).task.fence == 0


async def test_an_overdue_task_expires(system: System) -> None:
    """A task that is not started within its time to live expires, though no runner ever comes."""
    [task_id] = await system.submit(new_text(1))
    async with system.ledger.connection() as connection:
        await connection.execute("UPDATE task SET expires_at = now() - interval '1 second'")
    await system.wait_for(task_id, TaskState.EXPIRED)
    await system.wait_until_at_rest()


async def test_a_row_that_never_reached_the_queue_is_found(system: System, settings: Settings) -> None:
    """An API that died between the commit and the queue loses nothing: the reconciler queues the row."""
    [row] = await accept(system.ledger, [new_text(1)])
    async with system.ledger.connection() as connection:
        await connection.execute("UPDATE task SET created_at = now() - interval '1 minute'")
    async with runner(settings, "text"):
        await system.wait_for(row.task.id, TaskState.SUCCEEDED)


async def test_redis_forgets_everything_and_nothing_is_lost(system: System, settings: Settings) -> None:
    """After FLUSHALL the queues are made anew from PostgreSQL, in order, and every task is served once."""
    task_ids = await system.submit(*(new_text(number % 5, f"text {number}") for number in range(100)))
    await system.queue._redis.flushall()
    await wait_until(system.queue.is_open, "the gate open again")
    async with runner(settings, "text"):
        assert set(await system.wait_for_all(task_ids)) == {TaskState.SUCCEEDED}
        await system.wait_until_at_rest()
    assert {(await system.view(task_id)).task.fence for task_id in task_ids} == {1}
