"""Emptying a shard and opening it again: the Redis half of a rebuild from PostgreSQL."""

from __future__ import annotations

from typing import Final
from uuid import uuid4

from redis.exceptions import ResponseError

from detectsched.errors import GenerationLost
from detectsched.queueing import scripts
from detectsched.queueing.connection import RedisClients, translated
from detectsched.queueing.keys import GROUP, Keys
from detectsched.settings import Policy

_LOCK_SECONDS: Final = 30
_SCAN: Final = 1000
_SPARED: Final = ("generation", "rebuild", "worker:", "workers", "dead_letter")
"""Not made from PostgreSQL's open tasks: the lock itself, and what runners write anew at their next heartbeat."""


class Rebuild:
    """Steps of one rebuild; the dispatcher's rebuilder calls them in order: begin, wipe, (enqueue …), open."""

    def __init__(self, clients: RedisClients, keys: Keys, policy: Policy) -> None:
        self._clients = clients
        self._redis = clients.commands
        self._keys = keys
        self._policy = policy

    async def is_needed(self, *, check_policy: bool) -> bool:
        """Whether the data is missing, from another server's life, or (if asked) scheduled under another policy."""
        async with translated():
            raw, policy = await self._redis.get(self._keys.generation), None
            if raw:
                policy = await self._redis.hget(self._keys.named("scheduler"), "policy")
        if not raw or policy is None:
            return True
        told, policy_told = raw.decode().partition("@")[2], policy.decode()
        return bool(told != self._clients.watch.run_id or (check_policy and policy_told != self._policy))

    async def begin(self) -> str | None:
        """Take the rebuild lock and close the gate; None when somebody else is rebuilding."""
        token = uuid4().hex
        async with translated():
            if not await self._redis.set(self._keys.named("rebuild"), token, nx=True, ex=_LOCK_SECONDS):
                return None
            await self._redis.delete(self._keys.generation)
        return token

    async def extend(self, token: str) -> None:
        """Keep the lock while a long rebuild goes on.

        Raises:
            GenerationLost: the lock is not ours any more.
        """
        async with translated():
            key = self._keys.named("rebuild")
            if await self._redis.get(key) != token.encode() or not await self._redis.expire(key, _LOCK_SECONDS):
                raise GenerationLost("the rebuild was lost to another process")

    async def wipe(self, lanes: tuple[str, ...]) -> int:
        """Remove everything that is made from PostgreSQL, and make the lanes' streams; return how many keys went."""
        removed = 0
        cursor = 0
        async with translated(60.0):
            while True:
                cursor, found = await self._redis.scan(cursor, match=_escaped(self._keys.tag) + "*", count=_SCAN)
                doomed = [key for key in found if not key.decode().removeprefix(self._keys.tag).startswith(_SPARED)]
                if doomed:
                    removed += await self._redis.unlink(*doomed)
                if cursor == 0:
                    break
            await self._redis.hset(self._keys.named("scheduler"), "policy", self._policy.value)
        await self.ensure_groups(lanes)
        return removed

    async def ensure_groups(self, lanes: tuple[str, ...]) -> None:
        """Make the stream and the consumer group of every lane, where they are missing."""
        async with translated():
            for lane in lanes:
                try:
                    await self._redis.xgroup_create(self._keys.stream(lane), GROUP, id="0", mkstream=True)
                except ResponseError as error:
                    if not str(error).startswith("BUSYGROUP"):
                        raise

    async def open(self, token: str) -> str:
        """Write the new generation, last of all, and return it.

        Raises:
            GenerationLost: the lock is not ours any more.
        """
        async with translated():
            generation = f"{uuid4().hex}@{self._clients.watch.run_id}"
            answer = await scripts.run(self._redis, "open", self._keys.generation, [token, generation])
        if answer != [b"OPEN"]:
            raise GenerationLost("the rebuild was lost to another process")
        return generation


def _escaped(text: str) -> str:
    return "".join(f"\\{character}" if character in "[]*?\\" else character for character in text)
