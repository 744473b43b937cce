"""SIGTERM at any moment: bug report 5 (celery#4354), where what was fetched at the moment of a stop was thrown away."""

from __future__ import annotations

import random
import signal

from detectsched.settings import Settings
from tests.support.actors import new_text
from tests.support.processes import daemon
from tests.support.system import dispatching
from tests.support.waiting import wait_until

TASKS = 1000
STOPS = 4


async def test_runners_that_are_stopped_under_load_spend_no_attempt(settings: Settings) -> None:
    """Each ends with 0, whatever it was doing; no task is lost, none is tried more than it must be."""
    chance = random.Random(5)  # noqa: S311 - not a secret
    async with dispatching(settings) as system:
        for first in range(0, TASKS, 250):
            await system.submit(*(new_text(number % 20) for number in range(first, first + 250)))

        async def ended() -> int:
            async with system.ledger.connection() as connection:
                return int(await connection.fetchval("SELECT count(*) FROM task WHERE state = 'succeeded'"))

        for stop in range(STOPS):
            async with daemon(settings, "runner", "--lane", "text") as runner:
                before = await ended()
                more = chance.randint(1, TASKS // (2 * STOPS))

                async def some(wanted: int = before + more) -> bool:
                    return await ended() >= wanted

                await wait_until(some, f"{more} results of runner {stop}", 30)
                runner.process.send_signal(signal.SIGTERM)
                assert await runner.ended() == 0, runner.output
        async with daemon(settings, "runner", "--lane", "text"):

            async def everything() -> bool:
                return await ended() == TASKS

            await wait_until(everything, "every task succeeded", 60)
            await system.wait_until_at_rest()
        async with system.ledger.connection() as connection:
            assert await connection.fetchval("SELECT sum(attempts) FROM task") == 0
