"""What all tests share: one Valkey and one PostgreSQL per test process, emptied (copied afresh) for each test."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import redis.asyncio
import structlog
from pydantic import SecretStr

from detectsched.embedded.servers import EmbeddedPostgres, EmbeddedValkey
from detectsched.settings import (
    ENV_PREFIX,
    BlobSettings,
    PostgresSettings,
    RedisSettings,
    RunnerSettings,
    SchedulerSettings,
    Settings,
)
from tests.support.databases import Databases
from tests.support.leaks import leaked_keys
from tests.support.stores import postgres_for_tests, redis_for_tests


@pytest.fixture(scope="session", autouse=True)
def _no_settings_of_the_developer() -> Iterator[None]:
    """Run the tests on the defaults, whatever the shell that starts them has set."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(ENV_PREFIX)]:
            patch.delenv(name)
        yield


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """Undo what a command that ran inside the test process has set up for its process: level, format, context."""
    before, root = structlog.get_config(), logging.getLogger()
    level = root.level
    yield
    structlog.configure(**before)
    structlog.contextvars.clear_contextvars()
    root.setLevel(level)
    for handler in [handler for handler in root.handlers if type(handler) is logging.StreamHandler]:
        root.removeHandler(handler)


@pytest.fixture(scope="session")
async def redis_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[EmbeddedValkey]:
    """Give the one Valkey of this test process (Debian's Redis under `make test-compat`)."""
    server = redis_for_tests(tmp_path_factory.mktemp("redis") / "redis")
    await server.start()
    yield server
    await server.stop()


@pytest.fixture(scope="session")
async def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[EmbeddedPostgres]:
    """Give the one PostgreSQL of this test process (Debian's under `make test-compat`)."""
    server = postgres_for_tests(tmp_path_factory.mktemp("postgres") / "postgres")
    await server.start()
    yield server
    await server.stop()


@pytest.fixture(scope="session")
def databases(postgres_server: EmbeddedPostgres) -> Databases:
    """Make further databases, for tests that need more than one."""
    return Databases(postgres_server)


@pytest.fixture
async def redis_url(redis_server: EmbeddedValkey) -> AsyncIterator[str]:
    """Give an empty Redis; the test fails if it leaves a key behind that nothing will ever remove."""
    async with redis.asyncio.from_url(redis_server.url) as client:
        await client.flushall()
        yield redis_server.url
        leaked = await leaked_keys(client)
        await client.flushall()
    assert not leaked, f"Redis keys without a TTL and without an owner: {leaked}"


@pytest.fixture
async def postgres_url(databases: Databases) -> AsyncIterator[str]:
    """Give a fresh database with all migrations."""
    url = await databases.create()
    yield url
    await databases.drop(url)


@pytest.fixture
def settings(redis_url: str, postgres_url: str, tmp_path: Path) -> Settings:
    """Give the settings of a whole system on this test's stores, with intervals short enough to wait for."""
    return Settings(
        redis=RedisSettings(url=SecretStr(redis_url)),
        postgres=PostgresSettings(url=SecretStr(postgres_url), pool_size=4, read_pool_size=2),
        blobs=BlobSettings(url=f"file:{tmp_path / 'blobs'}"),
        # A test machine may be busy with other things: that must not keep its runners from fetching.
        runner=RunnerSettings(
            heartbeat_seconds=0.5,
            ttl_seconds=2.0,
            grace_seconds=5.0,
            cpu_high_percent=100.0,
        ),
        scheduler=SchedulerSettings(
            lease_seconds=2.0,
            sweep_seconds=0.2,
            safety_tick_seconds=0.2,
            backoff_base_seconds=0.2,
            backoff_max_seconds=1.0,
            watermark_interval_seconds=0.5,
            watermark_ttl_seconds=2.0,
            # With back-offs this short a lane would be given up before its runner has loaded its engine.
            max_defers=0,
        ),
    )
