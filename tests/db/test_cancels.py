"""Statements that are cancelled at any moment: bug reports 73 and 74 (asyncpg#464, #467; sqlalchemy#6592, #8145)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
from sqlmodel import text

from detectsched.db.connection import Ledger
from detectsched.settings import Settings
from tests.support.waiting import wait_until

POOL: Final = 4
CANCELLED: Final = 200
_OURS: Final = """
SELECT count(*) AS sessions, count(*) FILTER (WHERE state LIKE 'idle in transaction%') AS open
FROM pg_stat_activity WHERE datname = current_database()
"""


@pytest.fixture
async def ledger(settings: Settings) -> AsyncIterator[Ledger]:
    """Give a ledger of four connections either way, and a table to write to."""
    sizes = {"pool_size": POOL, "read_pool_size": POOL, "read_pool_overflow": 0}
    ledger = Ledger(settings.postgres.model_copy(update=sizes))
    async with ledger.connection() as connection:
        await connection.execute("CREATE TABLE asked (number int)")
    yield ledger
    await ledger.close()


async def by_pool(ledger: Ledger, number: int) -> int:
    """Ask by the way of the hot statements."""
    async with ledger.connection() as connection:
        return int(await connection.fetchval("SELECT $1::int", number))


async def in_transaction(ledger: Ledger, number: int) -> int:
    """Write two rows that belong together."""
    async with ledger.transaction() as connection:
        await connection.execute("INSERT INTO asked VALUES ($1)", number)
        return int(await connection.fetchval("INSERT INTO asked VALUES ($1) RETURNING number", number))


async def by_session(ledger: Ledger, number: int) -> int:
    """Write two rows that belong together, through SQLAlchemy."""
    async with ledger.session() as session:
        for _ in range(2):
            connection: Any = await session.connection()
            await connection.execute(text("INSERT INTO asked VALUES (:number)"), {"number": number})
    return number


WAYS: Final = (by_pool, in_transaction, by_session)


async def test_73_74_cancelled_statements_leave_both_pools_whole(ledger: Ledger) -> None:
    """No session is lost or left in a transaction, no half of a write stays, nobody gets another's answer."""
    chance = random.Random(73)  # noqa: S311 - not a secret
    cancelled = first = 0
    while cancelled < CANCELLED:
        numbers = range(first, first := first + 15)
        asked = [asyncio.create_task(WAYS[number % 3](ledger, number)) for number in numbers]
        for _ in range(chance.randrange(1, 40)):
            await asyncio.sleep(0)
        for one in asked[:-1]:
            one.cancel()
        answers = await asyncio.gather(*asked, return_exceptions=True)
        cancelled += sum(isinstance(answer, asyncio.CancelledError) for answer in answers)
        for number, answer in zip(numbers, answers, strict=True):
            assert answer == number or isinstance(answer, asyncio.CancelledError), f"another's answer: {answer!r}"
    together = [way(ledger, number) for way in WAYS for number in range(POOL)]
    assert await asyncio.wait_for(asyncio.gather(*together), 10) == [*range(POOL)] * len(WAYS)

    async def whole() -> bool:
        async with ledger.connection() as connection:
            row = await connection.fetchrow(_OURS)
        return bool(row["sessions"] <= 2 * POOL and row["open"] == 0)

    await wait_until(whole, "no session but those of the pools, and none in a transaction")
    async with ledger.connection() as connection:
        halves = await connection.fetch("SELECT number FROM asked GROUP BY number HAVING count(*) % 2 = 1")
    assert not halves
