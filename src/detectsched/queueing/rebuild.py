"""Emptying a shard and opening it again: the Redis half of a rebuild from PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Final
from uuid import uuid4

from redis.exceptions import ResponseError

from detectsched.errors import GenerationLost
from detectsched.queueing import scripts
from detectsched.queueing.connection import RedisClients, meant_for, translated
from detectsched.queueing.keys import GROUP, Keys
from detectsched.settings import Policy

LOCK_SECONDS: Final = 10
"""Each step prolongs it. When a rebuilder is killed, the gate stays closed for as long as its lock lives."""
_SCAN: Final = 1000
_SPARED: Final = ("generation", "rebuild", "scheduler", "worker:", "workers", "dead_letter", "repairs")
"""Not made from PostgreSQL's open tasks: the lock itself, and what runners write anew at their next heartbeat."""

_LOST: Final = "the rebuild was lost to another process"


def run_id_of(told: str) -> str:
    """Return the run id of the server for which a generation or a rebuild token was made: ``<uuid>@<run id>``."""
    return told.partition("@")[2]


class Rebuild:
    """Steps of one rebuild; the dispatcher's rebuilder calls them in order: begin, wipe, (enqueue …), open.

    Every step names the token that `begin` gave, and changes nothing once the lock has passed to somebody else.
    """

    def __init__(self, clients: RedisClients, keys: Keys, policy: Policy) -> None:
        self._clients = clients
        self._redis = clients.commands
        self._keys = keys
        self._policy = policy
        self._seen = ""
        self._tried: list[str] = []

    async def is_needed(self, lanes: tuple[str, ...], *, check_policy: bool) -> bool:
        """Whether data are missing, are from another server's life, or (if asked) scheduled under another policy.

        A lane without its consumer group counts as missing: its stream was evicted, or the lane is new.
        """
        async with translated():
            pipe = self._redis.pipeline(transaction=False)
            pipe.get(self._keys.generation)
            pipe.hget(self._keys.named("scheduler"), "policy")
            for lane in lanes:
                pipe.xinfo_groups(self._keys.stream(lane))
            raw, policy, *streams = await pipe.execute(raise_on_error=False)
            if any(isinstance(answer, ResponseError) and "WRONGTYPE" in str(answer) for answer in (raw, policy)):
                self._seen = ""
                return True
            for answer in (raw, policy):
                if isinstance(answer, Exception):
                    raise answer
        self._seen = raw.decode() if raw else ""
        if not raw or policy is None or not all(map(_has_group, streams)):
            return True
        foreign = run_id_of(self._seen) != self._clients.watch.run_id
        return bool(foreign or (check_policy and policy.decode() != self._policy))

    async def begin(self) -> str | None:
        """Take the rebuild lock and close the gate; None when somebody else rebuilds, or has since the last look.

        A rebuild of ours that failed half-way is begun anew at once, without waiting for its lock to pass.
        """
        async with translated():
            if self._clients.watch.run_id is None:
                await self._redis.ping()
        token = f"{uuid4().hex}@{self._clients.watch.run_id}"
        earlier, self._tried = self._tried, [*self._tried[-9:], token]
        [word] = await self._run("begin", token, [self._seen, LOCK_SECONDS, self._policy.value, *earlier])
        if word != b"BEGUN":
            self._tried.clear()
            return None
        return token

    async def wipe(self, token: str, lanes: tuple[str, ...]) -> int:
        """Remove everything that is made from PostgreSQL, and make the lanes' streams; return how many keys went.

        Raises:
            GenerationLost: the lock is not ours any more; nothing that another has rebuilt was removed.
        """
        removed = 0
        async for doomed in self._keys_but(_SPARED):
            removed += await self._wipe(token, doomed)
        await self.ensure_groups(lanes)
        return removed

    async def discard(self) -> int:
        """Remove every key of the shard, for good: a simulation leaves nothing behind. Return how many keys went."""
        removed = 0
        async for doomed in self._keys_but(()):
            async with translated():
                removed += await self._redis.unlink(*doomed)
        return removed

    async def _keys_but(self, spared: tuple[str, ...]) -> AsyncIterator[list[bytes]]:
        cursor = 0
        while True:
            async with translated():
                cursor, found = await self._redis.scan(cursor, match=escaped(self._keys.tag) + "*", count=_SCAN)
            doomed = [key for key in found if not key.decode().removeprefix(self._keys.tag).startswith(spared)]
            if doomed:
                yield doomed
            if cursor == 0:
                return

    async def set_paused(self, paused: Mapping[str, int]) -> None:
        """Restore what is paused, before anything is queued."""
        if paused:
            async with translated():
                await self._redis.hset(self._keys.named("paused"), mapping=dict(paused))

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

        It names the server on which the rebuild began: on any other it says that there is a need.

        Raises:
            GenerationLost: the lock is not ours any more.
        """
        generation = f"{uuid4().hex}@{run_id_of(token)}"
        if await self._run("open", token, [generation]) != [b"OPEN"]:
            raise GenerationLost(_LOST)
        self._tried.clear()
        return generation

    async def _wipe(self, token: str, doomed: list[bytes]) -> int:
        answer = await self._run("wipe", token, [LOCK_SECONDS, *doomed])
        if answer[0] == b"LOST":
            raise GenerationLost(_LOST)
        return int(answer[1])

    async def _run(self, name: str, token: str, arguments: list[str | int | float | bytes]) -> list[bytes]:
        async with translated():
            with meant_for(run_id_of(token)):
                return await scripts.run(self._redis, name, self._keys.generation, [token, *arguments])


def _has_group(groups: object) -> bool:
    """Whether the answer to XINFO GROUPS names our group; without a stream it is an error."""
    return isinstance(groups, list) and any(group["name"] == GROUP.encode() for group in groups)


def escaped(text: str) -> str:
    """Return a text as it stands for itself in a pattern of SCAN."""
    return "".join(f"\\{character}" if character in "[]*?\\" else character for character in text)
