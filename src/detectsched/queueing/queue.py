"""The door: everything that others may do with the queues.

A `Queue` belongs to one process. It knows the generation it was told, names it in every mutating script, and closes its
gate (`GenerationLost`) when Redis answers that it lives another life, until somebody has rebuilt it from PostgreSQL.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final
from uuid import UUID

from detectsched.clock import monotonic
from detectsched.errors import GenerationLost, StoreDamaged
from detectsched.queueing import scripts
from detectsched.queueing.calls import Call, Scripts, delivery_of
from detectsched.queueing.capacity import Capacity, capacity_of
from detectsched.queueing.connection import RedisClients, meant_for, translated
from detectsched.queueing.keys import DEFERRED, GROUP, Keys
from detectsched.queueing.pausing import concerned, paused_lane, paused_runner, paused_subject, paused_tenant
from detectsched.queueing.rebuild import LOCK_SECONDS, Rebuild, escaped, run_id_of
from detectsched.queueing.registry import Registry, WorkerRecord
from detectsched.queueing.scaling import Scaling, scaling_of
from detectsched.queueing.views import LaneState, QueueState, Standing, Views, aging_score
from detectsched.queueing.vocabulary import (
    Admission,
    Backoff,
    Completed,
    Completion,
    Deferred,
    Dispatched,
    Enqueued,
    GivenBack,
    Placement,
    Promoted,
    Released,
    Renewed,
    Result,
    Succession,
    Taker,
    Turns,
    Verdict,
    Withdrawn,
    subject_of,
)
from detectsched.settings import Settings
from detectsched.task import Delivery
from detectsched.telemetry import get_logger

__all__ = [
    "Admission",
    "Capacity",
    "Completed",
    "Completion",
    "Deferred",
    "Dispatched",
    "Enqueued",
    "GivenBack",
    "LaneState",
    "Placement",
    "Promoted",
    "Queue",
    "QueueState",
    "Released",
    "Renewed",
    "Result",
    "Scaling",
    "Standing",
    "Succession",
    "Taker",
    "Turns",
    "Verdict",
    "Withdrawn",
    "WorkerRecord",
    "aging_score",
    "capacity_of",
    "concerned",
    "paused_lane",
    "paused_runner",
    "paused_subject",
    "paused_tenant",
    "scaling_of",
    "subject_of",
]

log = get_logger(__name__)

_CLOSE_AGAIN_SECONDS: Final = 30.0
"""One rebuild heals damage; if it is there again at once, the fault is in us, and another rebuild wins nothing."""
_CLOSED: Final = "the queues are being rebuilt from the ledger; try again in a moment"


class Queue:
    """One shard's queues, seen from one process."""

    def __init__(
        self,
        clients: RedisClients,
        settings: Settings,
        *,
        shard: int = 0,
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        self._clients = clients
        self._redis = clients.commands
        self.keys = Keys(settings.redis.prefix, shard)
        self.generation: str | None = None
        self._closed_at = float("-inf")
        self._now_ms = now_ms
        self._scheduler = settings.scheduler
        self.scripts = self._scripts(self._call)
        self.registry = Registry(self._redis, self.keys)
        self.views = Views(self._call, self._redis, self.keys)
        self.rebuild = Rebuild(clients, self.keys, settings.scheduler.policy)

    async def join(self) -> str:
        """Learn the current generation.

        Raises:
            GenerationLost: there is none, or it was written on another server.
        """
        async with translated():
            raw = await self._redis.get(self.keys.generation)
        told = raw.decode() if raw else None
        if told is None or run_id_of(told) != self._clients.watch.run_id:
            self.generation = None
            raise GenerationLost(_CLOSED)
        self.generation = told
        return str(told)

    async def is_open(self) -> bool:
        """Whether the gate is open: Redis lives the life that this process knows, or one it can join."""
        try:
            await self.join()
        except GenerationLost:
            return False
        return True

    def _scripts(self, call: Call) -> Scripts:
        scheduler = self._scheduler
        return Scripts(
            call,
            meta_ttl_seconds=scheduler.queue_meta_ttl_seconds,
            backoff=Backoff(scheduler.failure_threshold, scheduler.backoff_base_seconds, scheduler.backoff_max_seconds),
            turns=Turns.of(scheduler),
            now_ms=self._now_ms,
        )

    def rebuilding(self, token: str) -> Scripts:
        """Return the scripts for whoever holds the rebuild lock, while the gate is closed to everybody else."""

        async def call(name: str, arguments: Sequence[str | int | float | bytes]) -> list[bytes]:
            async with translated():
                with meant_for(run_id_of(token)):
                    answer = await scripts.run(
                        self._redis, name, self.keys.generation, [f"rebuild:{LOCK_SECONDS}:{token}", *arguments]
                    )
            if answer[:1] == [b"LOST"]:
                raise GenerationLost("the rebuild was lost to another process")
            return answer

        return self._scripts(call)

    async def now_ms(self) -> int:
        """Return Redis' clock, by which everything in the queues is timed; milliseconds since the epoch."""
        if self._now_ms is not None:
            return self._now_ms()
        async with translated():
            seconds, micros = await self._redis.time()
        return int(seconds) * 1000 + int(micros) // 1000

    async def _call(self, name: str, arguments: Sequence[str | int | float | bytes]) -> list[bytes]:
        for _ in range(2):
            told = self.generation
            if told is None or run_id_of(told) != self._clients.watch.run_id:
                told = await self.join()
            try:
                async with translated():
                    # An old snapshot on another server carries a valid marker: nothing is said to it in good faith.
                    with meant_for(run_id_of(told)):
                        answer = await scripts.run(self._redis, name, self.keys.generation, [told, *arguments])
            except StoreDamaged as error:
                await self._close_gate(told, name, error)
                raise
            if answer[:1] != [b"LOST"]:
                return answer
            # Another life may be complete already; every script is idempotent, so it is simply said again to that one.
            self.generation = None
        raise GenerationLost(_CLOSED)

    async def _close_gate(self, told: str, name: str, error: StoreDamaged) -> None:
        """Have the queues made anew without what a script has stumbled over; not again and again by this process."""
        if monotonic() - self._closed_at < _CLOSE_AGAIN_SECONDS:
            return
        self._closed_at = monotonic()
        log.error("damaged data, the queues are made anew from the ledger", script=name, error=error.detail)
        async with translated():
            await scripts.run(self._redis, "close", self.keys.generation, [told])
        self.generation = None

    # Reading a lane -------------------------------------------------------------------------------------------------

    async def read(self, lane: str, consumer: str, *, count: int, block_seconds: float) -> list[Delivery]:
        """Fetch up to ``count`` new deliveries of a lane, waiting at most ``block_seconds`` for the first."""
        async with translated(block_seconds):
            answer = await self._clients.blocking.xreadgroup(
                GROUP,
                consumer,
                {self.keys.stream(lane): ">"},
                count=count,
                block=max(1, round(block_seconds * 1000)),
            )
        entries = [entry for _, found in answer or [] for entry in found]
        deliveries = [delivery_of(lane, entry_id, told.get(b"t"), told.get(b"d")) for entry_id, told in entries]
        return [delivery for delivery in deliveries if delivery is not None]

    async def read_own(self, lane: str, consumer: str, *, count: int = 1000) -> list[Delivery]:
        """Return what is pending in this consumer's name: after a lost reply, deliveries it never saw."""
        return await self.scripts.mine(lane, consumer, limit=count)

    async def admit_cpu(self, lane: str, *, admitted: bool) -> None:
        """Say whether runners without a GPU may read a lane that is for GPUs."""
        async with translated():
            await self._redis.hset(self.keys.named("lane:admission"), lane, "any" if admitted else "gpu")

    async def admits_cpu(self, lane: str) -> bool:
        """Whether runners without a GPU may read a lane that is for GPUs."""
        async with translated():
            return bool(await self._redis.hget(self.keys.named("lane:admission"), lane) == b"any")

    async def paused(self) -> dict[str, int]:
        """Return what is paused, and since when (ms): ``lane:…``, ``tenant:…``, ``subject:…``, ``runner:…``."""
        async with translated():
            found = await self._redis.hgetall(self.keys.named("paused"))
        return {what.decode(): _whole(since) for what, since in found.items()}

    # Waiting --------------------------------------------------------------------------------------------------------

    async def wait_for_work(self, lane: str, *, timeout_seconds: float) -> bool:
        """Wait for a lane's wake-up token; False when the time passed without one."""
        async with translated(timeout_seconds):
            return await self._clients.blocking.blpop([self.keys.wake(lane)], timeout_seconds) is not None

    async def hints(self, channel: str) -> AsyncIterator[UUID | None]:
        """Yield task ids announced on ``done`` or ``cancel``; None each second in which nothing was.

        Pub/sub loses messages: whoever uses this also looks for himself now and then. What is no task id is None too.
        """
        pubsub = self._clients.blocking.pubsub(ignore_subscribe_messages=True)
        try:
            async with translated(1.0):
                await pubsub.subscribe(self.keys.named(channel))
            while True:
                async with translated(1.0):
                    message = await pubsub.get_message(timeout=1.0)
                yield _task_id(message["data"]) if message else None
        finally:
            await pubsub.aclose()

    async def wait_for_deferral(self, *, timeout_seconds: float) -> bool:
        """Wait until something new is deferred; False when the time passed without."""
        return await self.wait_for_work(DEFERRED, timeout_seconds=timeout_seconds)

    # The settlement list ----------------------------------------------------------------------------------------------

    async def settlements(self, limit: int) -> list[bytes]:
        """Return what scripts decided for good and PostgreSQL may not have yet, oldest first: ``<decision>|<id>``."""
        async with translated():
            return list(await self._redis.lrange(self.keys.named("settlement"), 0, limit - 1))

    # Looking ----------------------------------------------------------------------------------------------------------

    async def unknown(self, task_ids: list[UUID]) -> list[UUID]:
        """Return those of the given tasks that Redis does not hold."""
        async with translated():
            pipe = self._redis.pipeline(transaction=False)
            for task_id in task_ids:
                pipe.exists(self.keys.task(task_id))
            known = await pipe.execute()
        return [task_id for task_id, there in zip(task_ids, known, strict=True) if not there]

    async def page_of_tasks(self, cursor: int, *, limit: int) -> tuple[int, list[UUID], int]:
        """Look at about ``limit`` tasks, as Redis holds them.

        Returns the next cursor (0 at the end), those that wait, and how many are adrift: said to be in a stream that
        does not have them, so that nobody will ever return them.
        """
        async with translated():
            cursor, found = await self._redis.scan(cursor, match=escaped(self.keys.task("")) + "*", count=limit)
            facts = await self._facts(found)
            waiting = [
                key for key, (state, _, _) in zip(found, facts, strict=True) if state in {b"queued", b"deferred"}
            ]
            streamed = [(key, fact) for key, fact in zip(found, facts, strict=True) if fact[0] == b"streamed"]
            pipe = self._redis.pipeline(transaction=False)
            for _, (_, lane, entry) in streamed:
                pipe.xrange(self.keys.stream(lane.decode()), entry, entry)
            entries = await pipe.execute()
            missing = [one for one, entry in zip(streamed, entries, strict=True) if not entry]
            # One that was completed between the two looks is no longer what it was.
            again = await self._facts([key for key, _ in missing])
        adrift = sum(now == then for now, (_, then) in zip(again, missing, strict=True))
        ids = (_task_id(key.removeprefix(self.keys.task("").encode())) for key in waiting)
        return int(cursor), [task_id for task_id in ids if task_id is not None], adrift

    async def _facts(self, keys: list[bytes]) -> list[list[bytes]]:
        pipe = self._redis.pipeline(transaction=False)
        for key in keys:
            pipe.hmget(key, "state", "lane", "entry")
        return list(await pipe.execute())

    async def page_of_queues(self, cursor: int, *, limit: int) -> tuple[int, list[str]]:
        """Return the next cursor (0 at the end) and the ids of about ``limit`` queues that Redis knows."""
        found: list[str] = []
        async with translated():
            cursor, keys = await self._redis.scan(cursor, match=escaped(self.keys.tag) + "*:meta:*", count=limit)
        for key in keys:
            kind, _, rest = key.decode().removeprefix(self.keys.tag).partition(":meta:")
            if kind in {"mac", "object"}:
                found.append(f"{kind}:{rest}")
        return int(cursor), found

    async def note_repairs(self, kind: str, count: int) -> None:
        """Count what had to be put right; it should stay 0."""
        async with translated():
            await self._redis.hincrby(self.keys.named("repairs"), kind, count)

    async def damaged(self, reason: str) -> None:
        """Close the gate, so that the queues are made anew from the ledger."""
        await self._close_gate(self.generation or await self.join(), "audit", StoreDamaged(reason))

    async def level(self, lanes: tuple[str, ...]) -> dict[str, int]:
        """Return ``total_pending``, ``mac_count``, per lane ``outstanding:<lane>`` and ``completed:<lane>``.

        And per kind ``repaired:<kind>``, what the reconciler had to put right.
        """
        async with translated():
            pipe = self._redis.pipeline(transaction=False)
            pipe.get(self.keys.named("global_pending"))
            pipe.hlen(self.keys.named("mac:pending"))
            pipe.hmget(self.keys.named("lane:completed"), list(lanes))
            for lane in lanes:
                pipe.xlen(self.keys.stream(lane))
            pipe.hgetall(self.keys.named("repairs"))
            total, macs, completed, *outstanding, repairs = await pipe.execute()
        level = {"total_pending": _whole(total), "mac_count": int(macs)}
        for lane, done, out in zip(lanes, completed, outstanding, strict=True):
            level[f"completed:{lane}"] = _whole(done)
            level[f"outstanding:{lane}"] = int(out)
        return level | {f"repaired:{kind.decode()}": _whole(count) for kind, count in repairs.items()}

    async def publish_watermark(self, document: str, *, ttl_seconds: float) -> None:
        """Publish the level of the system, as JSON."""
        async with translated():
            await self._redis.set(self.keys.named("watermark"), document, px=round(ttl_seconds * 1000))

    async def watermark(self) -> str | None:
        """Return the last published level, if it is still believed."""
        async with translated():
            raw = await self._redis.get(self.keys.named("watermark"))
        return raw.decode() if raw else None

    async def mirror_dead_letters(self, documents: list[str], *, keep: int) -> None:
        """Put dead letters (JSON) in front of the Redis list of the original, which keeps the newest; each once."""
        if not documents:
            return
        async with translated():
            pipe = self._redis.pipeline(transaction=True)
            for document in documents:
                # Told again after a lost reply, or by another process that recovers the same task.
                pipe.lrem(self.keys.named("dead_letter"), 0, document)
            pipe.lpush(self.keys.named("dead_letter"), *documents)
            pipe.ltrim(self.keys.named("dead_letter"), 0, keep - 1)
            await pipe.execute()


def _whole(raw: bytes | None) -> int:
    """Return a number that Redis holds, 0 for none.

    Raises:
        StoreDamaged: it is none.
    """
    try:
        return int(raw or 0)
    except ValueError as error:
        raise StoreDamaged(f"Redis holds {raw!r} where a number should be") from error


def _task_id(told: bytes) -> UUID | None:
    try:
        return UUID(told.decode())
    except ValueError:
        return None
