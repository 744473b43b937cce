"""The scheduler's state as it can be read: why a task waits, how a queue, a lane and the whole stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from detectsched.queueing.calls import Call
from detectsched.queueing.connection import Redis, translated
from detectsched.queueing.keys import Keys
from detectsched.queueing.vocabulary import subject_of
from detectsched.task import QueueId


@dataclass(frozen=True, slots=True)
class Standing:
    """Everything that decides about a task's start, at one moment. Times are milliseconds since the epoch; 0: none.

    ``state`` is that of queueing/keys.py. ``ahead`` counts the tasks before it in its own queue, ``ahead_cost`` adds up
    their cost. ``queue_rank`` and ``tenant_rank`` are the places in the round, from 0; None when not in it.
    ``tokens`` are the tasks that its rates let start now; None without a rate.
    """

    now_ms: int
    state: str
    queue: str
    lane: str
    owner: str
    ready_ms: int
    ahead: int
    ahead_cost: float
    scheduled_in: str
    key: float
    v: float
    since_ms: int
    until_ms: int
    inflight: int
    limit: int
    probing: bool
    failures: int
    defers: int
    tokens: float | None
    tenant_tokens: float | None
    tenant_until_ms: int
    queue_rank: int | None
    queues: int
    tenant_rank: int | None
    tenants: int
    head_created_ms: int
    head_sequence: int
    paused_lane_ms: int
    paused_tenant_ms: int
    paused_subject_ms: int
    outstanding: int
    lane_seconds: float | None
    pending: int


@dataclass(frozen=True, slots=True)
class QueueState:
    """One queue: ``length`` tasks wait; ``scheduled_in`` is the lane in whose schedule it stands, or ''."""

    queue: str
    scheduled_in: str
    length: int
    head_created_ms: int
    key: float
    since_ms: int
    until_ms: int
    inflight: int
    limit: int
    weight: float
    failures: int
    defers: int
    paused_ms: int

    def aging_score(self, now_ms: int, *, max_wait_seconds: float, weight: float) -> float:
        """Return the original's score, as `aging_score` does."""
        return aging_score(self.head_created_ms, now_ms, max_wait_seconds=max_wait_seconds, weight=weight)


@dataclass(frozen=True, slots=True)
class LaneState:
    """One lane: tenants and queues with something to serve, tasks handed out, completed so far, its measured pace."""

    lane: str
    tenants: int
    queues: int
    outstanding: int
    completed: int
    seconds_per_cost: float | None
    paused_ms: int
    cpu_admitted: bool


class Views:
    """Reads; changes nothing."""

    def __init__(self, call: Call, redis: Redis, keys: Keys) -> None:
        self._call = call
        self._redis = redis
        self._keys = keys

    async def standing(self, task_id: UUID, *, now: str = "") -> Standing | None:
        """Return how a task stands; None when Redis does not hold it."""
        answer = await self._call("explain", [now, str(task_id)])
        if answer[0] == b"GONE":
            return None
        said = {answer[i].decode(): answer[i + 1].decode() for i in range(1, len(answer), 2)}
        return Standing(
            now_ms=int(float(said["now"])),
            state=said["state"],
            queue=said["queue"],
            lane=said["lane"],
            owner=said["owner"],
            ready_ms=_integer(said["ready_ms"]),
            ahead=_integer(said["ahead"]),
            ahead_cost=_number(said["ahead_cost"]),
            scheduled_in=said["queue_lane"],
            key=_number(said["key"]),
            v=_number(said["v"]),
            since_ms=_integer(said["since"]),
            until_ms=_integer(said["until_ms"]),
            inflight=_integer(said["inflight"]),
            limit=_integer(said["limit"]),
            probing=bool(said["probing"]),
            failures=_integer(said["failures"]),
            defers=_integer(said["defers"]),
            tokens=_optional(said["tokens"]),
            tenant_tokens=_optional(said["tenant_tokens"]),
            tenant_until_ms=_integer(said["tenant_until_ms"]),
            queue_rank=_rank(said["queue_rank"]),
            queues=_integer(said["queues"]),
            tenant_rank=_rank(said["tenant_rank"]),
            tenants=_integer(said["tenants"]),
            head_created_ms=_integer(said["head_created_ms"]),
            head_sequence=_integer(said["head_sequence"]),
            paused_lane_ms=_integer(said["paused_lane"]),
            paused_tenant_ms=_integer(said["paused_tenant"]),
            paused_subject_ms=_integer(said["paused_subject"]),
            outstanding=_integer(said["outstanding"]),
            lane_seconds=_optional(said["lane_seconds"]),
            pending=_integer(said["pending"]),
        )

    async def queues(self, queue_ids: Sequence[QueueId], *, now: str = "") -> tuple[int, list[QueueState]]:
        """Return the time (ms) and how queues stand, in the order given; one that Redis does not know is empty."""
        said: list[Any] = await self._call("observe", [now, *map(str, queue_ids)])
        answer = [str(raw if isinstance(raw, int) else raw.decode()) for raw in said[1:]]
        rows = [answer[i : i + 13] for i in range(1, len(answer), 13)]
        states = [
            QueueState(
                queue=row[0],
                scheduled_in=row[1],
                length=_integer(row[2]),
                head_created_ms=_integer(row[3]),
                key=_number(row[4]),
                since_ms=_integer(row[5]),
                until_ms=_integer(row[6]),
                inflight=_integer(row[7]),
                limit=_integer(row[8]),
                weight=_number(row[9]) or 1.0,
                failures=_integer(row[10]),
                defers=_integer(row[11]),
                paused_ms=_integer(row[12]),
            )
            for row in rows
        ]
        return _integer(answer[0]), states

    async def lane(self, lane: str) -> LaneState:
        """Return how a lane stands."""
        tenants_key = self._keys.named(f"mac:schedule:{lane}")
        async with translated():
            pipe = self._redis.pipeline(transaction=False)
            pipe.zrange(tenants_key, 0, 999)
            pipe.zcard(tenants_key)
            pipe.xlen(self._keys.stream(lane))
            for name in ("lane:completed", "lane:seconds", "lane:admission"):
                pipe.hget(self._keys.named(name), lane)
            pipe.hget(self._keys.named("paused"), f"lane:{lane}")
            first, tenants, outstanding, completed, seconds, admission, paused = await pipe.execute()
            pipe = self._redis.pipeline(transaction=False)
            for tenant in first:
                pipe.zcard(f"{tenants_key}:{tenant.decode()}")
            queues = await pipe.execute()
        return LaneState(
            lane=lane,
            tenants=tenants,
            queues=sum(queues),
            outstanding=outstanding,
            completed=int(completed or 0),
            seconds_per_cost=float(seconds) if seconds else None,
            paused_ms=int(paused or 0),
            cpu_admitted=admission != b"gpu",
        )

    async def in_schedule(self, lane: str, tenant: str, *, limit: int) -> list[QueueId]:
        """Return the queues of a tenant in the order in which they would be served."""
        async with translated():
            found = await self._redis.zrange(self._keys.named(f"mac:schedule:{lane}:{tenant}"), 0, limit - 1)
        return [QueueId.parse(raw.decode()) for raw in found]

    async def backlogs(self, queues: Sequence[QueueId]) -> list[int]:
        """Return how much waits of the device or the object that each queue belongs to, in all lanes."""
        if not queues:
            return []
        async with translated():
            found = await self._redis.hmget(self._keys.named("mac:pending"), [subject_of(queue) for queue in queues])
        return [int(count or 0) for count in found]

    async def backlog(self) -> int:
        """Return how much waits in all."""
        async with translated():
            return int(await self._redis.get(self._keys.named("global_pending")) or 0)

    async def backlog_of_tenant(self, tenant: str) -> int:
        """Return how much of a tenant waits."""
        async with translated():
            return int(await self._redis.hget(self._keys.named("tenant:pending"), tenant) or 0)


def aging_score(head_created_ms: int, now_ms: int, *, max_wait_seconds: float, weight: float) -> float:
    """Return the original's score of a queue: min(seconds its head has waited, maximum) × weight; 0 without a head."""
    if not head_created_ms:
        return 0.0
    return min(max(0, now_ms - head_created_ms) / 1000, max_wait_seconds) * weight


def _integer(text: str) -> int:
    return int(float(text)) if text else 0


def _number(text: str) -> float:
    return float(text) if text else 0.0


def _optional(text: str) -> float | None:
    return float(text) if text else None


def _rank(text: str) -> int | None:
    return int(text) if text else None
