"""A queue whose calls of one turn of the event loop share one round trip, in the order in which they were made.

For the simulator, which asks one thing after another for hours of virtual time: four round trips an event would be most
of what that takes. Servers do not need it; their calls come from many processes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from detectsched.errors import GenerationLost
from detectsched.queueing import scripts
from detectsched.queueing.connection import RedisClients, translated
from detectsched.queueing.keys import GROUP
from detectsched.queueing.queue import Queue
from detectsched.settings import Settings
from detectsched.task import Delivery


class RoundTripQueue(Queue):
    """``asyncio.gather`` several calls: the server runs them one after the other, and nothing comes between them."""

    def __init__(self, clients: RedisClients, settings: Settings, *, now_ms: Callable[[], int]) -> None:
        super().__init__(clients, settings, now_ms=now_ms)
        self._waiting: list[tuple[tuple[Any, ...], asyncio.Future[Any]]] = []
        self._sender: asyncio.Task[None] | None = None

    async def join(self) -> str:
        """Learn the current generation, and give the server every script: in a pipeline it could not ask for one."""
        told = await super().join()
        async with translated():
            for name in scripts.NAMES:
                await self._redis.script_load(scripts.load(name).source)
        return told

    async def read_now(self, lane: str, consumer: str, *, count: int) -> list[Delivery]:
        """Fetch up to ``count`` new deliveries of a lane, without waiting for any."""
        answer = await self._send(
            "XREADGROUP", "GROUP", GROUP, consumer, "COUNT", count, "STREAMS", self.keys.stream(lane), ">"
        )
        return [
            Delivery(UUID(fields[b"t"].decode()), int(fields[b"d"]), lane, entry_id.decode())
            for _, entries in answer or []
            for entry_id, fields in entries
        ]

    async def _call(self, name: str, arguments: Sequence[str | int | float | bytes]) -> list[bytes]:
        told = self.generation or await self.join()
        answer = await self._send("EVALSHA", scripts.load(name).sha, 1, self.keys.generation, told, *arguments)
        if answer[:1] == [b"LOST"]:
            raise GenerationLost("somebody has emptied the server meanwhile")
        return list(answer)

    async def _send(self, *command: Any) -> Any:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((command, future))
        if self._sender is None or self._sender.done():
            # Begins after everybody who is about to make a call in this turn has made it.
            self._sender = asyncio.create_task(self._send_all(), name="round-trip")
        return await future

    async def _send_all(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            pipe = self._redis.pipeline(transaction=False)
            for command, _ in batch:
                pipe.execute_command(*command)
            try:
                async with translated():
                    answers = await pipe.execute(raise_on_error=False)
            except Exception as error:  # noqa: BLE001 - every caller is told; nothing is swallowed
                answers = [error] * len(batch)
            for (_, future), answer in zip(batch, answers, strict=True):
                if future.done():
                    continue
                if isinstance(answer, Exception):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)
