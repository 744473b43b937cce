"""The runners' records: the original's field list plus ours, with a TTL, found without SCAN."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from detectsched.queueing.connection import Redis, translated
from detectsched.queueing.keys import Keys
from detectsched.telemetry import get_logger

log = get_logger(__name__)

_MOST_SLOTS: Final = 10_000
"""More than any setting allows: a damaged record must not promise the room of a thousand machines."""


@dataclass(frozen=True, slots=True)
class WorkerRecord:
    """What a runner says of itself.

    The first twelve fields are the original's (memory in bytes, loads in percent; None, in Redis '', is a load that
    cannot be measured). ``consumer`` is its identity, ``host:pid:boot``, ``label`` the name that operators drain it by;
    ``slots`` maps lanes to the tasks it works on at once, as ``ocr=1,text=32``; ``state`` is ``healthy``, ``busy``
    (pressure: nothing is fetched), ``unhealthy`` (it cannot work until a person starts it anew) or ``stopping``, and
    ``reason`` says why in words. ``gpu_state`` is ``ok``, ``busy``, ``unknown``, ``failed``, ``lost`` or ``absent``,
    and why; '' for a runner that uses no GPU. The last fields count since its start: images that engines read, images
    whose text was known, images given up on for crashing engines, engine processes replaced; ``fenced``, starts that
    came to nothing since their task had passed to another. ``empty_share`` of the images read lately had no text, 0 to
    1, and ``empty_alarm`` is 1 while that is far more than usual. ``word_lists`` are the versions that it has compiled,
    the last used first, as ``tenant/list@version`` with spaces between.
    """

    hostname: str
    pid: int
    gpu_available: int
    gpu_util: float | None
    gpu_memory_util: float | None
    cpu_count: int
    cpu_percent: float
    memory_total: int
    memory_available: int
    memory_percent: float
    active_tasks: int
    last_heartbeat: str
    consumer: str
    slots: str
    label: str = ""
    state: str = "healthy"
    reason: str = ""
    gpu_state: str = ""
    engine: str = ""
    version: str = ""
    images_read: int = 0
    images_reused: int = 0
    images_poison: int = 0
    engines_replaced: int = 0
    fenced: int = 0
    empty_share: float = 0.0
    empty_alarm: int = 0
    word_lists: str = ""

    @property
    def name(self) -> str:
        """The record's key after ``worker:``."""
        return f"{self.hostname}:{self.pid}"

    def lists_of(self, tenant: str) -> list[tuple[str, int]]:
        """Return the ids and versions of a tenant's word lists that this runner has compiled, the last used first."""
        mine = (name.removeprefix(f"{tenant}/") for name in self.word_lists.split() if name.startswith(f"{tenant}/"))
        pairs = (name.partition("@") for name in mine)
        return [(list_id, int(version)) for list_id, _, version in pairs if version.isdecimal()]

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
        self._malformed: set[str] = set()

    async def report(self, record: WorkerRecord, *, ttl_seconds: float, changed: bool, lanes: tuple[str, ...]) -> None:
        """Write a record for another TTL; when its slots or health changed, wake the dispatchers of its lanes."""
        key = self._keys.named(f"worker:{record.name}")
        async with translated():
            pipe = self._redis.pipeline(transaction=True)
            values: dict[Any, Any] = {name: "" if value is None else value for name, value in asdict(record).items()}
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
            names = [
                raw.decode(errors="replace") for raw in await self._redis.zrange(self._keys.named("workers"), 0, -1)
            ]
            if not names:
                return []
            pipe = self._redis.pipeline(transaction=False)
            for name in names:
                pipe.hgetall(self._keys.named(f"worker:{name}"))
            # What is no hash must not hide the other runners.
            rows = await pipe.execute(raise_on_error=False)
            gone = [name for name, row in zip(names, rows, strict=True) if not row]
            if gone:
                await self._redis.zrem(self._keys.named("workers"), *gone)
        self._malformed &= set(names)
        return [
            record
            for name, row in zip(names, rows, strict=True)
            if row and (record := self._record_of(name, row)) is not None
        ]

    def _record_of(self, name: str, row: Any) -> WorkerRecord | None:
        try:
            return _parse(row)
        except (TypeError, ValueError) as error:
            # The dispatchers ask every second; once is enough.
            if name not in self._malformed:
                self._malformed.add(name)
                log.warning("malformed runner record ignored", runner=name, record=str(row)[:500], error=str(error))
            return None


def _parse(row: Any) -> WorkerRecord:
    """Return the record that a hash holds.

    Raises:
        ValueError: it is not one, or not one of a runner that could work.
        TypeError: it is no hash, or a field is missing.
    """
    if not isinstance(row, dict):
        raise TypeError(f"not a hash: {row}")
    text = {key.decode(): value.decode() for key, value in row.items()}
    record = WorkerRecord(**{f.name: _TYPES[str(f.type)](text[f.name]) for f in fields(WorkerRecord) if f.name in text})
    if not record.consumer:
        raise ValueError("it names no consumer")
    for part in record.slots.split(","):
        slots = int(part.partition("=")[2])
        if not 0 <= slots <= _MOST_SLOTS:
            raise ValueError(f"slots of 0 to {_MOST_SLOTS}, not {slots}")
    return record


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"not a measured number: {text}")
    return value


_TYPES: Final[dict[str, Callable[[str], Any]]] = {
    "int": int,
    "float": _finite,
    "float | None": lambda text: _finite(text) if text else None,
    "str": str,
}
