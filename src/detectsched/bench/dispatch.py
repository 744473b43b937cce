"""``detectsched bench dispatch``: what a task costs with few and with many backlogged queues."""

from __future__ import annotations

import platform
import secrets
import statistics
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Final, TypeVar
from uuid import UUID

from pydantic import SecretStr
from rich.console import Console
from rich.progress import track
from rich.table import Column, Table

from detectsched import __version__
from detectsched.embedded.temporary import temporary_valkey
from detectsched.queueing.connection import RedisClients
from detectsched.queueing.queue import Completion, Placement, Queue, Turns
from detectsched.settings import LogSettings, RedisSettings, Settings
from detectsched.task import DEFAULT_TENANT, QueuedTask, QueueId
from detectsched.telemetry import configure_logging

_PER_CALL: Final = 50  # tasks in a measured call: the round trip is divided among them
_LANE: Final = "text"
_CONSUMER: Final = "bench:1:boot"
_TURNS: Final = Turns(batch=1, min_batch=1, starvation_seconds=1e9, order="fifo")
"""One task a turn: the same work at both sizes, and a look at the schedule for every task."""

CLAIM: Final = 1.5

Answer = TypeVar("Answer")


@dataclass(slots=True)
class Shard:
    """An open shard with some backlogged queues, and the seconds that its calls took per task."""

    queues: int
    queue: Queue
    clients: RedisClients
    dispatch: list[float] = field(default_factory=list)
    complete: list[float] = field(default_factory=list)

    @classmethod
    async def filled(cls, url: str, queues: int, tasks_each: int, talk: Console) -> Shard:
        """Open a shard under a prefix of its own and queue so many tasks in each of its queues."""
        prefix = f"bench-{secrets.token_hex(4)}"
        settings = Settings(redis=RedisSettings(url=SecretStr(url), prefix=prefix))
        clients = RedisClients(settings.redis, name="bench")
        shard = cls(queues, Queue(clients, settings), clients)
        rebuild = shard.queue.rebuild
        token = await rebuild.begin()
        if token is None:
            raise RuntimeError(f"the random prefix {prefix} is in use")
        await rebuild.wipe(token, settings.lanes)
        await rebuild.open(token)
        total = queues * tasks_each
        for first in track(range(0, total, 500), f"queueing in {queues:,} queues", console=talk):
            some = range(first, min(first + 500, total))
            await shard.queue.scripts.enqueue([Placement(shard._task(number)) for number in some])
        return shard

    def _task(self, number: int) -> QueuedTask:
        mac = f"02:00:{(number % self.queues):08x}"
        now = 4_000_000_000_000  # far away: nothing expires
        return QueuedTask(
            id=UUID(int=number + 1),
            queue=QueueId.of_device(DEFAULT_TENANT, _LANE, mac),
            lane=_LANE,
            sequence=number + 1,
            cost=1.0,
            created_ms=now,
            expires_ms=now,
            mac=mac,
        )

    async def round(self) -> None:
        """Dispatch some tasks and complete them, timing both."""
        sent = await _timed(
            self.dispatch,
            lambda: self.queue.scripts.dispatch(_LANE, capacity=_PER_CALL, live=[_CONSUMER], turns=_TURNS),
        )
        if sent.sent != _PER_CALL:
            raise RuntimeError(f"{sent.sent} tasks dispatched instead of {_PER_CALL}")
        deliveries = await self.queue.read(_LANE, _CONSUMER, count=_PER_CALL, block_seconds=1.0)
        done = [Completion(delivery.task_id, delivery.number) for delivery in deliveries]
        await _timed(self.complete, lambda: self.queue.scripts.complete(done))

    async def close(self) -> None:
        """Leave nothing behind."""
        await self.queue.rebuild.discard()
        await self.clients.close()


async def _timed(times: list[float], call: Callable[[], Awaitable[Answer]]) -> Answer:
    begun = perf_counter()
    answer = await call()
    times.append((perf_counter() - begun) / _PER_CALL)
    return answer


async def run_dispatch(*, few: int, many: int, rounds: int, redis_url: str | None) -> int:
    """Measure both sizes by turns in one run; return 0 when the claim holds, 1 when it does not."""
    configure_logging(LogSettings(level="warning"), "bench")
    talk = Console(stderr=True)
    async with temporary_valkey(redis_url) as url:
        # So many that no queue runs empty: an empty one costs otherwise.
        shards = [await Shard.filled(url, queues, rounds * _PER_CALL // queues + 2, talk) for queues in (few, many)]
        try:
            for _ in track(range(rounds), "dispatching by turns", console=talk):
                for shard in shards:
                    await shard.round()
        finally:
            for shard in shards:
                await shard.close()
    return _show(shards)


def _show(shards: list[Shard]) -> int:
    table = Table(
        "backlogged queues",
        *(Column(name, justify="right") for name in ("dispatch µs/task", "complete µs/task")),
        title="Cost per task, medians",
    )
    medians = []
    for shard in shards:
        pair = statistics.median(shard.dispatch), statistics.median(shard.complete)
        medians.append(pair)
        table.add_row(f"{shard.queues:,}", *(f"{seconds * 1e6:.1f}" for seconds in pair))
    ratios = [many / few for few, many in zip(*medians, strict=True)]
    table.add_row("ratio", *(f"{ratio:.2f}" for ratio in ratios))
    console = Console()
    console.print(table)
    console.print(
        f"detectsched {__version__}, Python {platform.python_version()}, {platform.machine()}, {sys.platform}; "
        f"{len(shards[0].dispatch)} calls of {_PER_CALL} tasks at each size, by turns",
        highlight=False,
    )
    holds = ratios[0] <= CLAIM
    console.print(f"claim: dispatching costs at most {CLAIM} times as much: {'holds' if holds else 'does not hold'}")
    return 0 if holds else 1
