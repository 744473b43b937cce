"""Commands written by hiredis are those that redis-py writes."""

from __future__ import annotations

from typing import Any

import pytest
from redis.asyncio.connection import Connection
from redis.exceptions import DataError

from detectsched.queueing.packing import packing
from detectsched.settings import Policy
from tests.support.actors import Bench

COMMANDS: list[tuple[Any, ...]] = [
    ("SET", "key", "value"),
    ("CONFIG SET", "maxmemory", 0),
    (b"CONFIG GET", b"maxmemory"),
    ("HSET", "key", "é", "房", "empty", "", b"raw\x00\r\n", -1, 2**70, 0.1, 1e300, float("inf")),
    ("HSET", "scheduler", "policy", Policy.FAIR),
    ("SET", "key", memoryview(b"rare"), bytearray(b"type")),
    ("PING",),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: str(command[0]))
async def test_the_bytes_are_the_same(command: tuple[Any, ...]) -> None:
    """For every type that redis-py takes."""
    plain, ours = Connection(), packing(Connection)()
    assert b"".join(ours.pack_command(*command)) == b"".join(map(bytes, plain.pack_command(*command)))
    assert b"".join(ours.pack_commands([command] * 3)) == b"".join(map(bytes, plain.pack_commands([command] * 3)))


@pytest.mark.parametrize("value", [True, None, {}])
async def test_what_cannot_be_sent_is_refused(bench: Bench, value: Any) -> None:
    """By redis-py's own error, before anything is sent."""
    with pytest.raises(DataError):
        await bench.clients.commands.set("{sensitive:0}:key", value)
    assert await bench.clients.commands.exists("{sensitive:0}:key") == 0
