"""The runners' records: the original's field list plus ours, with a TTL, found without SCAN."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, fields
from typing import Any

from detectsched.queueing.connection import Redis, translated
from detectsched.queueing.keys import Keys
from detectsched.telemetry import get_logger

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class WorkerRecord:
    """What a runner says of itself.

    The first twelve fields are the original's (memory in bytes, loads in percent). ``consumer`` is its identity,
    ``host:pid:boot``; ``slots`` maps lanes to the tasks it works on at once, as ``ocr=1,text=32``; ``state`` is
    ``healthy``, ``busy`` (pressure: nothing is fetched) or ``stopping``, and ``reason`` says why in words.
    """

    hostname: str
    pid: int
    gpu_available: int
    gpu_util: float
    gpu_memory_util: float
    cpu_count: int
    cpu_percent: float
    memory_total: int
    memory_available: int
    memory_percent: float
    active_tasks: int
    last_heartbeat: str
    consumer: str
    slots: str
    state: str = "healthy"
    reason: str = ""
    engine: str = ""
    version: str = ""

    @property
    def name(self) -> str:
        """The record's key after ``worker:``."""
        return f"{self.hostname}:{self.pid}"

    def slots_of(self, lane: str) -> int:
        """Return how many tasks of a lane this runner works on at once."""
        for part in self.slots.split(","):
            name, _, count = part.partition("=")
            if name == lane:
                return int(count)
        return 0


class Registry:
    """Reads and writes runner records."""

    def __init__(self, redis: Redis, keys: Keys) -> None:
        self._redis = redis
        self._keys = keys

    async def report(self, record: WorkerRecord, *, ttl_seconds: float, changed: bool, lanes: tuple[str, ...]) -> None:
        """Write a record for another TTL; when its slots or health changed, wake the dispatchers of its lanes."""
        key = self._keys.named(f"worker:{record.name}")
        async with translated():
            pipe = self._redis.pipeline(transaction=True)
            values: dict[Any, Any] = asdict(record)
            pipe.hset(key, mapping=values)
            pipe.pexpire(key, round(ttl_seconds * 1000))
            pipe.zadd(self._keys.named("workers"), {record.name: round((time.time() + ttl_seconds) * 1000)})
            if changed:
                self._announce(pipe, lanes)
            await pipe.execute()

    async def remove(self, name: str, lanes: tuple[str, ...]) -> None:
        """Forget a runner that has stopped."""
        async with translated():
            pipe = self._redis.pipeline(transaction=True)
            pipe.delete(self._keys.named(f"worker:{name}"))
            pipe.zrem(self._keys.named("workers"), name)
            self._announce(pipe, lanes)
            await pipe.execute()

    def _announce(self, pipe: Any, lanes: tuple[str, ...]) -> None:
        pipe.incr(self._keys.named("workers_epoch"))
        for lane in lanes:
            pipe.lpush(self._keys.wake(lane), "runners")
            pipe.ltrim(self._keys.wake(lane), 0, 0)

    async def epoch(self) -> int:
        """Return a number that changes whenever a runner comes, goes or changes its health."""
        async with translated():
            return int(await self._redis.get(self._keys.named("workers_epoch")) or 0)

    async def workers(self) -> list[WorkerRecord]:
        """Return the records of runners that have reported within their TTL; malformed ones are left out and logged."""
        async with translated():
            names = [raw.decode() for raw in await self._redis.zrange(self._keys.named("workers"), 0, -1)]
            if not names:
                return []
            pipe = self._redis.pipeline(transaction=False)
            for name in names:
                pipe.hgetall(self._keys.named(f"worker:{name}"))
            rows = await pipe.execute()
            gone = [name for name, row in zip(names, rows, strict=True) if not row]
            if gone:
                await self._redis.zrem(self._keys.named("workers"), *gone)
        return [record for row in rows if row and (record := _parse(row)) is not None]


def _parse(row: dict[bytes, bytes]) -> WorkerRecord | None:
    text = {key.decode(): value.decode(errors="replace") for key, value in row.items()}
    types = {"int": int, "float": float, "str": str}
    try:
        record = WorkerRecord(
            **{f.name: types[str(f.type)](text[f.name]) for f in fields(WorkerRecord) if f.name in text}
        )
        for part in record.slots.split(","):
            int(part.partition("=")[2])
    except (TypeError, ValueError) as error:
        log.warning("malformed runner record ignored", record=text, error=str(error))
        return None
    return record
