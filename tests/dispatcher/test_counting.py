"""A running dispatcher counts what its runners end."""

from __future__ import annotations

from datetime import UTC, datetime

from detectsched.db.recount import compare
from detectsched.db.word_lists import publish
from detectsched.settings import ReportSettings, Settings
from detectsched.task import DEFAULT_TENANT, TaskState
from detectsched.wordlist import Word
from tests.support.actors import new_text
from tests.support.system import dispatching, runner
from tests.support.waiting import wait_until

EVER = (datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC))


async def test_a_running_system_is_counted(settings: Settings) -> None:
    """Texts go through a dispatcher and a runner; a moment later they, and what was found, are in the sums."""
    settings = settings.model_copy(update={"reports": ReportSettings(count_seconds=0.05, count_batch=3)})
    async with dispatching(settings) as system, runner(settings, "text"):
        ledger = system.ledger
        await publish(ledger, DEFAULT_TENANT, "words", [Word("two", "c", 2)], name="W", is_default=True, by="test")
        ids = await system.submit(*(new_text(number % 3, "one two" if number % 2 else "one") for number in range(10)))
        assert set(await system.wait_for_all(ids)) == {TaskState.SUCCEEDED}

        async def counted() -> bool:
            async with ledger.connection() as connection:
                row = await connection.fetchrow(
                    "SELECT sum(tasks) AS tasks, sum(hits) AS hits, sum(timed) AS timed FROM stat_device"
                )
            return (row["tasks"], row["hits"], row["timed"]) == (10, 5, 10)

        await wait_until(counted, "ten tasks counted")
        assert (await compare(ledger, *EVER)).different == 0
