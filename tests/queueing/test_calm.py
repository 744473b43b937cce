"""A dead Redis costs a process one attempt a second, however many of its loops and requests want it (F34)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from detectsched.clock import monotonic
from detectsched.errors import StoreUnavailable
from detectsched.queueing.connection import RedisClients
from detectsched.queueing.queue import Queue
from detectsched.settings import RedisSettings, Settings

CLIENTS = 200


async def test_a_dead_server_is_left_in_peace(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    """Two hundred callers that never wait, for a second and a half: two attempts, and each caller is told at once."""
    attempts, failed = [], []
    connect = asyncio.open_connection

    async def noted(*arguments: Any, **options: Any) -> Any:
        attempts.append(monotonic())
        try:
            return await connect(*arguments, **options)
        finally:
            failed.append(monotonic())

    monkeypatch.setattr(asyncio, "open_connection", noted)
    clients = RedisClients(RedisSettings.model_validate({"url": "redis://127.0.0.1:1/0"}), name="test")
    queue = Queue(clients, settings)
    told = 0

    async def caller(until: float) -> None:
        nonlocal told
        while monotonic() < until:
            with pytest.raises(StoreUnavailable):
                await queue.join()
            told += 1
            await asyncio.sleep(0)

    await asyncio.gather(*(caller(monotonic() + 1.5) for _ in range(CLIENTS)))
    await clients.close()
    # Until the first has failed there may be several at once: nobody knew better yet.
    assert len([at for at in attempts if at > failed[0]]) <= 2
    assert told > 2 * CLIENTS


async def test_a_server_that_is_back_is_found(bench: Any) -> None:
    """The peace is short, and a connection that works ends it."""
    await bench.queue.join()
    await bench.clients.commands.connection_pool.disconnect()
    assert await bench.queue.is_open()
