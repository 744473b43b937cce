"""A server that would lose queues by its own settings is refused at the start, in words that say what to change."""

from __future__ import annotations

import pytest

from detectsched.errors import ConfigurationError
from detectsched.queueing.connection import RedisClients
from detectsched.queueing.fitness import require_fit
from detectsched.settings import RedisSettings, Settings
from tests.support.actors import Bench


async def test_a_server_that_evicts_is_refused(bench: Bench) -> None:
    """Bug report 19: a stream that is evicted takes its group with it; without a limit it is only a warning."""
    redis = bench.clients.commands
    await require_fit(bench.clients)
    try:
        await redis.config_set("maxmemory-policy", "allkeys-lru")
        await require_fit(bench.clients)
        await redis.config_set("maxmemory", "100mb")
        with pytest.raises(ConfigurationError, match="CONFIG SET maxmemory-policy noeviction"):
            await require_fit(bench.clients)
    finally:
        await redis.config_set("maxmemory", 0)
        await redis.config_set("maxmemory-policy", "noeviction")


async def test_a_server_that_is_away_is_waited_for(settings: Settings) -> None:
    """It may start after us."""
    nobody = RedisSettings.model_validate({"url": "redis://127.0.0.1:1/0"})
    clients = RedisClients(nobody, name="test")
    await require_fit(clients)
    await clients.close()


@pytest.mark.parametrize(("name", "version"), [("redis_version", "6.2.14"), ("valkey_version", "7.2.5")])
async def test_a_server_that_is_too_old_is_refused(bench: Bench, name: str, version: str) -> None:
    """Its streams are not what ours need."""
    told = {"redis_version": "7.2.4", name: version}

    class Old:
        async def info(self) -> dict[str, str]:
            return told

    bench.clients.commands, kept = Old(), bench.clients.commands
    try:
        with pytest.raises(ConfigurationError, match="too old"):
            await require_fit(bench.clients)
    finally:
        bench.clients.commands = kept
