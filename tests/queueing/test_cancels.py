"""Commands to Redis that are cancelled at any moment: bug reports 61 and 71 (redis-py#3056, #4121, #2624, #2665)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from pydantic import SecretStr

from chaos.cluster import connect_to
from chaos.proxy import Proxy
from detectsched.queueing.connection import RedisClients
from detectsched.settings import RedisSettings

CONNECTIONS: Final = 5
VALUES: Final = 50


@asynccontextmanager
async def pool_of_five(url: str) -> AsyncIterator[RedisClients]:
    """Give a small pool, on a server that knows some values."""
    clients = RedisClients(RedisSettings(url=SecretStr(url), max_connections=CONNECTIONS), name="test")
    await clients.commands.mset({f"{{t}}:{number}": number for number in range(VALUES)})
    try:
        yield clients
    finally:
        await clients.commands.flushall()
        await clients.close()


async def ask(clients: RedisClients, number: int) -> bool:
    """Ask for a value, plainly or in a transaction; whether it is the one that was asked for."""
    if number % 3:
        return bool(int(await clients.commands.get(f"{{t}}:{number}")) == number)
    pipe = clients.commands.pipeline(transaction=True)
    pipe.get(f"{{t}}:{number}")
    pipe.get(f"{{t}}:{number}")
    return bool([int(answer) for answer in await pipe.execute()] == [number, number])


async def cancel_at_random(clients: RedisClients, wanted: int) -> None:
    """Call until so many calls were cancelled somewhere between beginning and end; the others get their own answer."""
    chance = random.Random(61)  # noqa: S311 - not a secret
    while wanted > 0:
        asked = [asyncio.create_task(ask(clients, chance.randrange(VALUES))) for _ in range(50)]
        for _ in range(chance.randrange(1, 12)):
            await asyncio.sleep(0)
        for one in asked[:-1]:
            one.cancel()
        for answer in await asyncio.gather(*asked, return_exceptions=True):
            wanted -= isinstance(answer, asyncio.CancelledError)
            assert isinstance(answer, asyncio.CancelledError) or answer is True, f"another's answer: {answer!r}"


async def test_61_ten_thousand_cancelled_commands_leave_the_pool_whole(redis_url: str) -> None:
    """None is lent for ever: as many callers as there are connections are served at once, and no more exist."""
    async with pool_of_five(redis_url) as clients:
        await cancel_at_random(clients, 10_000)
        assert not clients.commands.connection_pool._in_use_connections
        assert all(await asyncio.gather(*(ask(clients, number) for number in range(CONNECTIONS))))
        names = [client["name"] for client in await clients.commands.client_list()]
        assert sum(name.startswith("detectsched-test") for name in names) <= CONNECTIONS


async def test_71_a_cancelled_command_never_answers_another(redis_url: str) -> None:
    """Its answer is still on its way when the next command is given, which gets its own."""
    proxy = Proxy(connect_to(redis_url))
    await proxy.start()
    try:
        async with pool_of_five(f"redis://127.0.0.1:{proxy.port}/0") as clients:
            proxy.delay_seconds = 0.002
            for number in range(1, VALUES):
                left = asyncio.create_task(ask(clients, number))
                for _ in range(number % 12):
                    await asyncio.sleep(0)
                left.cancel()
                assert await asyncio.gather(*(ask(clients, other) for other in range(3))) == [True] * 3
    finally:
        await proxy.stop()
