"""Two releases side by side (F30): this one meets what only the next one knows, and leaves it as it is."""

from __future__ import annotations

from typing import Any, Final

from detectsched.queueing.keys import GROUP
from detectsched.queueing.queue import GivenBack
from detectsched.settings import Settings
from detectsched.task import TaskState
from tests.support.actors import Bench, device_task, new_text
from tests.support.system import System, dispatching, runner
from tests.support.waiting import wait_until

_TABLES: Final = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'alembic_version'"


async def row_of(system: System, task_id: Any) -> dict[str, Any]:
    """Return a task's row."""
    async with system.ledger.connection() as connection:
        return dict(await connection.fetchrow("SELECT state, attempts, fence FROM task WHERE id = $1", task_id))


async def set_kind(system: System, task_id: Any, kind: str) -> None:
    """Make a row what another release would have accepted."""
    async with system.ledger.connection() as connection:
        await connection.execute("UPDATE task SET kind = $2 WHERE id = $1", task_id, kind)


async def test_a_task_of_an_unknown_kind_is_left_to_those_who_know_it(settings: Settings) -> None:
    """Given back without an attempt, again and again; others go on; whoever knows it gets it."""
    async with dispatching(settings) as system:
        [strange, known] = await system.submit(new_text(1), new_text(1))
        await set_kind(system, strange, "video")
        async with runner(settings, "text"):
            await system.wait_for(known, TaskState.SUCCEEDED)

            async def tried_twice() -> bool:
                delivered = await system.queue._redis.hget(system.queue.keys.task(strange), "delivery")
                return int(delivered or 0) >= 2

            await wait_until(tried_twice, "the unknown task handed out again")
            assert await row_of(system, strange) == {"state": "queued", "attempts": 0, "fence": 0}
            # Now a runner of the newer release is there.
            await set_kind(system, strange, "text")
            await system.wait_for(strange, TaskState.SUCCEEDED)
        assert (await row_of(system, strange))["attempts"] == 0
        await system.wait_until_at_rest()


async def test_columns_of_a_newer_schema_harm_nobody(settings: Settings) -> None:
    """Every table gets a column while everything runs: statements that were prepared before go on."""
    async with dispatching(settings) as system, runner(settings, "text"):
        before = await system.submit(*(new_text(number) for number in range(5)))
        await system.wait_for_all(before)
        async with system.ledger.connection() as connection:
            for row in await connection.fetch(_TABLES):
                await connection.execute(f"ALTER TABLE \"{row['tablename']}\" ADD COLUMN tomorrow text DEFAULT 'x'")
        after = await system.submit(*(new_text(number) for number in range(5)))
        assert set(await system.wait_for_all(after)) == {TaskState.SUCCEEDED}
        await system.wait_until_at_rest()


async def test_fields_of_a_newer_release_are_kept(bench: Bench) -> None:
    """In the hash of a task, in that of its queue, in a stream's entry and in the record of a runner."""
    redis, keys = bench.clients.commands, bench.queue.keys
    task = device_task(1, bench.time)
    await bench.enqueue(task)
    meta = keys.named(f"mac:meta:{str(task.queue).partition(':')[2]}")
    for key in (keys.task(task.id), meta):
        await redis.hset(key, "tomorrow", "x")
    await bench.serve(1)
    await bench.queue.scripts.release([GivenBack(task.id, bench.owners.pop(task.id))])
    assert await bench.serve(1) == [task.id]
    assert [await redis.hget(key, "tomorrow") for key in (keys.task(task.id), meta)] == [b"x", b"x"]
    assert await bench.complete(task.id) == ["DONE"]
    entry = await redis.xadd(keys.stream("text"), {"t": str(task.id), "d": "7", "tomorrow": "x"})
    [delivery] = await bench.queue.read("text", bench.consumer, count=1, block_seconds=0.01)
    assert (delivery.task_id, delivery.number) == (task.id, 7)
    await redis.xack(keys.stream("text"), GROUP, entry)
    await redis.xdel(keys.stream("text"), entry)
