"""What of a task is counted, when it is compared and mended, and how long it is kept."""

from __future__ import annotations

import asyncio
import math
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from detectsched.attempt import Ending
from detectsched.clock import utc_now
from detectsched.db import retention
from detectsched.db.accept import accept
from detectsched.db.connection import Ledger
from detectsched.db.histogram import RELATIVE_ERROR, bucket_sql, quantile
from detectsched.db.recount import compare, repair
from detectsched.db.results import end
from detectsched.db.starts import start
from detectsched.db.statistics import count_due, hold_sums
from detectsched.db.transitions import cancel, expire_due, recover
from detectsched.detection import Detection, Hit, ListVersion
from detectsched.dispatcher.statistician import Statistician
from detectsched.settings import ReportSettings
from detectsched.task import DEFAULT_TENANT, Delivery, TaskState
from tests.db.counting import EVER, Fact, end_task
from tests.support.actors import mac_number, new_text
from tests.support.contract import check_service_contract

ALWAYS = (datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC))
LIST = ListVersion("words", 1)


def hit(word: str, category: str = "c") -> Hit:
    """Return a hit."""
    return Hit(word, category, 1, 0, 1, word, LIST)


async def rows_of(ledger: Ledger, query: str, *arguments: Any) -> list[tuple[Any, ...]]:
    """Return rows as tuples."""
    async with ledger.connection() as connection:
        return [tuple(row) for row in await connection.fetch(query, *arguments)]


async def write(ledger: Ledger, *facts: Fact) -> None:
    """End tasks."""
    async with ledger.connection() as connection:
        for fact in facts:
            await end_task(connection, fact)


async def test_every_way_to_end_is_counted_once(ledger: Ledger) -> None:
    """By its runner with the times of that start; while waiting, or with a lost runner, without times."""
    rows = await accept(ledger, [new_text(number) for number in range(6)])
    ids = [row.task.id for row in rows]
    await start(ledger, [Delivery(task_id, 1, "text", "1-1") for task_id in ids[:4]], runner="r")
    found = Detection((hit("a"), hit("a"), hit("b")), (LIST,))
    await end(
        ledger,
        [
            Ending(ids[0], DEFAULT_TENANT, 1, TaskState.SUCCEEDED, detection=found),
            Ending(ids[1], DEFAULT_TENANT, 1, TaskState.FAILED),
            Ending(ids[2], DEFAULT_TENANT, 1, TaskState.QUEUED, spends_attempt=True),
        ],
    )
    assert await recover(ledger, [(ids[3], 1)], max_attempts=1) == {ids[3]: TaskState.DEAD}
    await cancel(ledger, DEFAULT_TENANT, ids[4])
    assert await count_due(ledger, limit=10) == 4, "two are still open"
    # One that waits after a failed try has been started: its times would be those of that try.
    async with ledger.connection() as connection:
        await connection.execute("UPDATE task SET expires_at = now() WHERE id = ANY ($1::uuid[])", [ids[2], ids[5]])
    assert set(await expire_due(ledger, limit=10)) == {ids[2], ids[5]}
    assert await count_due(ledger, limit=10) == 2
    assert await count_due(ledger, limit=10) == 0
    counted = await rows_of(ledger, "SELECT state, tasks, timed, with_hits, hits FROM stat_hourly ORDER BY state")
    assert counted == [
        ("cancelled", 1, 0, 0, 0),
        ("dead", 1, 0, 0, 0),
        ("expired", 2, 0, 0, 0),
        ("failed", 1, 1, 0, 0),
        ("succeeded", 1, 1, 1, 3),
    ]
    of_device = await rows_of(
        ledger, "SELECT hits, wait_us > 0, run_us > 0 FROM stat_device WHERE mac = $1", mac_number(0)
    )
    assert of_device == [(3, True, True)]
    words = await rows_of(ledger, "SELECT category, word, tasks, hits FROM stat_word ORDER BY word")
    assert words == [("c", "", 1, 3), ("c", "a", 1, 2), ("c", "b", 1, 1)]
    assert (await compare(ledger, *ALWAYS)).different == 0


async def test_what_is_wrong_is_told_and_mended(ledger: Ledger) -> None:
    """Rows that are off, missing and too many; hours outside, and what is not counted yet, are left alone."""
    await write(ledger, *(Fact("succeeded", mac=mac_number(1), words=(("c", "a"),), hours_ago=ago) for ago in range(3)))
    await count_due(ledger, limit=10)
    await write(ledger, Fact("failed"))
    async with ledger.connection() as connection:
        await connection.execute("UPDATE stat_hourly SET waits = '{1,2}', tasks = 7")
        await connection.execute("DELETE FROM stat_device")
        await connection.execute(
            "INSERT INTO stat_word SELECT tenant, hour, 'x', 'y', lane, 1, 1 FROM stat_word WHERE word = ''"
        )
    hour = Fact("failed").key[0]
    found = await compare(ledger, hour - timedelta(hours=1), hour + timedelta(hours=1), show=4)
    assert (found.different, len(found.differences), found.hours_removed) == (6, 4, 0)
    assert {difference.table for difference in found.differences} <= {"stat_hourly", "stat_device", "stat_word"}
    await repair(ledger, hour - timedelta(hours=1), hour + timedelta(hours=1))
    assert (await compare(ledger, hour - timedelta(hours=1), hour + timedelta(hours=1))).different == 0
    assert (await compare(ledger, *EVER)).different == 3, "the hour before"
    assert await count_due(ledger, limit=10) == 1, "it was not counted by the repair"
    await repair(ledger, *EVER)
    assert (await compare(ledger, *EVER)).different == 0


async def test_hours_of_which_tasks_were_removed_stay_as_they_are(ledger: Ledger) -> None:
    """They cannot be counted again: a repair would make them smaller."""
    await write(ledger, Fact("dead"), Fact("failed", hours_ago=1))
    await count_due(ledger, limit=10)
    async with ledger.connection() as connection:
        await connection.execute("DELETE FROM task WHERE state = 'dead'")
    found = await compare(ledger, *EVER)
    assert (found.different, found.hours_removed) == (0, 1)
    await repair(ledger, *EVER)
    assert await rows_of(ledger, "SELECT state FROM stat_hourly ORDER BY 1") == [("dead",), ("failed",)]


async def test_quantiles_are_off_by_no_more_than_they_say(ledger: Ledger) -> None:
    """Of any durations, and of the sum of histograms; the shortest and the longest have an end."""
    pick = random.Random(3)  # noqa: S311 - a repeatable sequence
    micros = [round(10 ** pick.uniform(2, 11)) for _ in range(999)] + [0, 1000, 1001, 2**50]
    async with ledger.connection() as connection:
        half = f"SELECT histogram_of(array_agg({bucket_sql('v')})) FROM unnest($1::bigint[]) AS g (v)"  # noqa: S608
        left = await connection.fetchval(half, micros[:300])
        right = await connection.fetchval(half, micros[300:])
        counts = await connection.fetchval("SELECT histogram_add($1, $2)", left, right)
        assert await connection.fetchval(half, micros) == counts
        assert await connection.fetchval(half, []) == []
    assert sum(counts) == len(micros)
    in_order = sorted(micros)
    for share in (0.01, 0.25, 0.5, 0.9, 0.95):
        true = in_order[math.ceil(share * len(micros)) - 1] / 1e6
        told = quantile(counts, share)
        assert told is not None
        assert abs(told - true) <= max(0.001, true * RELATIVE_ERROR * 1.0001), share
    assert quantile([], 0.5) is None
    assert quantile([5], 0.99) == 0.001
    assert quantile(counts, 1.0) == pytest.approx(2**30 / 1000, rel=0.1)


async def test_one_counts_at_a_time(ledger: Ledger) -> None:
    """Four loops on one ledger: whoever comes second leaves it to the first, and nothing is counted twice."""
    await write(ledger, *(Fact("failed", hours_ago=number % 3) for number in range(50)))
    loops = [
        Statistician(ledger, ReportSettings(count_batch=3, keep_days=36_500, keep_detail_days=36_500)) for _ in range(4)
    ]
    while await rows_of(ledger, "SELECT FROM stat_due LIMIT 1"):
        await asyncio.gather(*(loop.run_once() for loop in loops))
    assert await rows_of(ledger, "SELECT sum(tasks)::int FROM stat_hourly") == [(50,)]
    async with ledger.transaction() as connection:
        await hold_sums(connection)
        await write(ledger, Fact("failed"))
        assert await loops[0].run_once() == 0
    assert await loops[0].run_once() == 1
    assert (await compare(ledger, *EVER)).different == 0


async def test_a_turn_is_bounded(ledger: Ledger) -> None:
    """What is left is for the next turn, which is not waited for."""
    await write(ledger, *(Fact("failed") for _ in range(25)))
    loop = Statistician(ledger, ReportSettings(count_batch=1, count_seconds=3600))
    assert await loop.run_once() == 20
    await asyncio.wait_for(loop.pause(), 5)
    assert await loop.run_once() == 5


async def test_the_loop_keeps_the_contract_of_services(ledger: Ledger) -> None:
    """Started and stopped in any order."""
    loop = Statistician(ledger, ReportSettings())
    await check_service_contract(loop, lambda: loop._task is not None and not loop._task.done())


async def test_old_sums_and_entries_are_forgotten(ledger: Ledger) -> None:
    """Details sooner than totals, the audit log only where that is set; nobody else can remove an entry."""
    now = utc_now()
    settings = ReportSettings(keep_days=20, keep_detail_days=10, keep_audit_days=0)
    async with ledger.connection() as connection:
        for days in (1, 15, 25):
            at = now - timedelta(days=days)
            await connection.execute("INSERT INTO stat_hourly VALUES ('t', $1, 'text', 'failed')", at)
            await connection.execute("INSERT INTO stat_device VALUES ('t', $1, 'm', 'text', 'failed')", at)
            await connection.execute("INSERT INTO stat_word VALUES ('t', $1, 'c', 'w', 'text')", at)
            await connection.execute(
                "INSERT INTO audit_log (tenant, at, actor, action, subject, outcome) "
                "VALUES ('t', $1, 'a', 'b', 'c', 'd')",
                at,
            )
    pruned = await retention.prune(ledger, settings)
    assert pruned == {"stat_device": 2, "stat_word": 2, "stat_hourly": 1, "stat_removed": 0}
    pruned = await retention.prune(ledger, settings.model_copy(update={"keep_audit_days": 20}))
    assert pruned["audit_log"] == 1
    async with ledger.connection() as connection:
        for statement in ("DELETE FROM audit_log", "UPDATE audit_log SET actor = 'x'", "TRUNCATE audit_log"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError, match="only appended to"):
                await connection.execute(statement)
        async with connection.transaction():
            await connection.execute("SET LOCAL detectsched.audit_retention = 'on'")
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                async with connection.transaction():
                    await connection.execute("UPDATE audit_log SET actor = 'x'")
        assert await connection.fetchval("SELECT count(*) FROM audit_log") == 2


async def test_a_task_that_is_driven_again_counts_as_another(ledger: Ledger) -> None:
    """The letter stays counted as dead, its successor as what becomes of it."""
    await write(ledger, Fact("dead"), replace(Fact("dead"), hours_ago=1))
    await count_due(ledger, limit=10)
    async with ledger.connection() as connection:
        await connection.execute(
            "INSERT INTO task (id, tenant, kind, lane, queue, object, cost, expires_at, text, redrive_of) "
            "SELECT gen_random_uuid(), tenant, kind, lane, queue, object, cost, now(), text, id FROM task LIMIT 1"
        )
        await connection.execute("UPDATE task SET state = 'cancelled', finished_at = now() WHERE state = 'queued'")
    assert await count_due(ledger, limit=10) == 1
    assert await rows_of(ledger, "SELECT state, tasks FROM stat_device ORDER BY hour DESC") == [
        ("cancelled", 1),
        ("dead", 1),
        ("dead", 1),
    ]
