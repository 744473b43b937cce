"""Processes whose wall clocks are days apart (F21, F22): when a task is due, or too late, is not theirs to say."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from typing import Final

from detectsched.clock import utc_now
from detectsched.settings import Settings
from detectsched.task import TaskState
from tests.chaos.small_run import text_of_object
from tests.support.actors import new_text
from tests.support.processes import daemon
from tests.support.system import opened
from tests.support.waiting import wait_until

_DAY: Final = 86_400
CLOCKS: Final = (
    (_DAY, "dispatcher"),
    (-3600, "dispatcher"),
    (400 * _DAY, "runner", "--lane", "text"),
    (-_DAY, "runner", "--lane", "text"),
)
DELAY_SECONDS: Final = 2.0
_STARTS: Final = """
SELECT id, attempts, extract(epoch FROM started_at - coalesce(not_before, created_at))::float8 AS late
FROM task ORDER BY started_at
"""


async def test_processes_with_wrong_clocks_expire_nothing_and_start_nothing_early(settings: Settings) -> None:
    """What is delayed starts at its time by the ledger's clock, objects keep their order, no lease is lost."""
    async with AsyncExitStack() as stack:
        system = await stack.enter_async_context(opened(settings))
        for shift, *command in CLOCKS:
            wrong = daemon(settings, str(shift), *command, module="tests.processes.wrong_clock")
            await stack.enter_async_context(wrong)
        await wait_until(system.queue.is_open, "the gate open", 30)

        async def apart() -> bool:
            return len({worker.last_heartbeat[:4] for worker in await system.queue.registry.workers()}) == 2

        await wait_until(apart, "two runners that disagree about the year", 30)
        due = utc_now() + timedelta(seconds=DELAY_SECONDS)
        ids = await system.submit(
            *(new_text(number) for number in range(20)),
            *(text_of_object("door", f"key {number}") for number in range(5)),
            *(replace(new_text(number), not_before=due, ttl_seconds=30) for number in range(5)),
        )
        assert set(await system.wait_for_all(ids)) == {TaskState.SUCCEEDED}
        await system.wait_until_at_rest()
        async with system.ledger.connection() as connection:
            rows = await connection.fetch(_STARTS)
    assert sum(row["attempts"] for row in rows) == 0
    order = [str(row["id"]) for row in rows]
    object_ids = [str(task_id) for task_id in ids[20:25]]
    assert [task_id for task_id in order if task_id in object_ids] == object_ids
    delayed = {str(task_id) for task_id in ids[25:]}
    assert all(0 <= row["late"] < 10 for row in rows if str(row["id"]) in delayed)
