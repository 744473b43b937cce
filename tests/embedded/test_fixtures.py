"""The stores that the other tests stand on."""

from __future__ import annotations

import asyncpg
import redis.asyncio

from detectsched.embedded.servers import EmbeddedPostgres
from tests.support.databases import Databases
from tests.support.leaks import leaked_keys


async def test_redis_is_empty_at_the_start_of_a_test(redis_url: str) -> None:
    """Each test begins with no key at all."""
    async with redis.asyncio.from_url(redis_url) as client:
        assert await client.dbsize() == 0


async def test_the_leak_check_names_a_key_without_ttl(redis_url: str) -> None:
    """A key without a TTL and owner is found; one with a TTL is not."""
    async with redis.asyncio.from_url(redis_url) as client:
        await client.set("stray", "1")
        await client.set("fine", "1", ex=60)
        assert await leaked_keys(client) == ["stray"]
        await client.delete("stray")


async def test_postgres_answers(postgres_server: EmbeddedPostgres) -> None:
    """The server of this test process is up."""
    assert postgres_server.pid is not None


async def test_each_test_gets_a_migrated_database_of_its_own(postgres_url: str, databases: Databases) -> None:
    """Two databases from the same template share nothing."""
    other = await databases.create()
    for url in (postgres_url, other):
        connection = await asyncpg.connect(url)
        try:
            assert await connection.fetchval("SELECT count(*) FROM task") == 0
            await connection.execute("CREATE TABLE mine (x int)")
        finally:
            await connection.close()
    await databases.drop(other)
