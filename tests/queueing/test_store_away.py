"""Whatever says "not now" is `StoreUnavailable`, never a bug: loops wait for it instead of dying."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from chaos.snapshot import Snapshot
from detectsched.errors import StoreUnavailable
from detectsched.queueing.queue import GivenBack, Placement, Released, Withdrawn, WorkerRecord
from tests.support.actors import Bench, device_task
from tests.support.waiting import wait_until

RECORD = WorkerRecord("host", 1, 0, 0.0, 0.0, 1, 0.0, 1, 1, 0.0, 0, "", "host:1:boot", "text=1")


@asynccontextmanager
async def out_of_memory(bench: Bench) -> AsyncIterator[None]:
    """Give the server no memory for anything new."""
    await bench.clients.commands.config_set("maxmemory", 1)
    yield
    await bench.clients.commands.config_set("maxmemory", 0)


@asynccontextmanager
async def a_replica(bench: Bench) -> AsyncIterator[None]:
    """Make the server a replica of nobody who answers."""
    await bench.clients.commands.execute_command("REPLICAOF", "127.0.0.1", "1")
    yield
    await bench.clients.commands.execute_command("REPLICAOF", "NO", "ONE")


@asynccontextmanager
async def without_replicas(bench: Bench) -> AsyncIterator[None]:
    """Let the server refuse writes for want of replicas."""
    await bench.clients.commands.config_set("min-replicas-to-write", 1)
    yield
    await bench.clients.commands.config_set("min-replicas-to-write", 0)


@pytest.mark.parametrize("state", [out_of_memory, a_replica, without_replicas])
async def test_a_server_that_takes_no_writes_is_away(
    bench: Bench, state: Callable[[Bench], AbstractAsyncContextManager[None]]
) -> None:
    """Scripts and pipelines alike are refused, whole, and work again afterwards."""
    task = device_task(1, bench.time)
    async with state(bench):
        with pytest.raises(StoreUnavailable):
            await bench.enqueue(task)
        with pytest.raises(StoreUnavailable):
            await bench.queue.registry.report(RECORD, ttl_seconds=60, changed=True, lanes=("text",))
        with pytest.raises(StoreUnavailable):
            await bench.queue.publish_watermark("{}", ttl_seconds=1)
    assert await bench.queue.unknown([task.id]) == [task.id]
    await bench.enqueue(task)
    assert await bench.serve(1) == [task.id]


async def test_what_waits_is_worked_off_without_memory(bench: Bench) -> None:
    """A full server takes nothing new, and goes on with all that makes it empty again."""
    tasks = [device_task(1, bench.time) for _ in range(4)]
    await bench.enqueue(*tasks)
    async with out_of_memory(bench):
        assert await bench.serve(2) == [tasks[0].id, tasks[1].id]
        assert await bench.complete(tasks[0].id) == ["DONE"]
        back = GivenBack(tasks[1].id, bench.owners.pop(tasks[1].id))
        assert await bench.queue.scripts.release([back]) == [Released.RELEASED]
        assert await bench.queue.scripts.withdraw([tasks[2].id]) == [Withdrawn.WITHDRAWN]
        assert await bench.serve(2) == [tasks[1].id, tasks[3].id]
    placements = {task.id: Placement(task) for task in (tasks[1], tasks[3])}
    now = await Snapshot.read(bench.queue, bench.clients.commands)
    assert now.faults(placements, bench.time.ms) == []


@pytest.mark.parametrize("how", ["flushall", "unlink"])
async def test_a_reader_survives_the_loss_of_its_stream(bench: Bench, how: str) -> None:
    """Data are lost while a runner waits for work: it is told that the store is away."""
    redis, stream = bench.clients.commands, bench.queue.keys.stream("text")
    reading = asyncio.create_task(bench.queue.read("text", bench.consumer, count=1, block_seconds=1.0))

    async def blocked() -> bool:
        return any("b" in client["flags"] for client in await redis.client_list())

    await wait_until(blocked, "the reader waiting")
    await (redis.flushall() if how == "flushall" else redis.unlink(stream))
    with pytest.raises(StoreUnavailable):
        await reading
