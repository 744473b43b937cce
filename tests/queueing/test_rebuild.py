"""A rebuild under faults: locks that are lost, servers that change, streams that are gone."""

from __future__ import annotations

import pytest

from detectsched.errors import GenerationLost, StoreUnavailable
from detectsched.queueing.queue import Placement, Queue
from detectsched.settings import Settings
from tests.support.actors import Bench, device_task


async def needed(queue: Queue, settings: Settings) -> bool:
    """Ask whether a rebuild is needed."""
    return await queue.rebuild.is_needed(settings.lanes, check_policy=True)


async def lose(bench: Bench) -> None:
    """Let Redis lose its generation."""
    await bench.clients.commands.delete(bench.queue.keys.generation)


async def reconnect(bench: Bench) -> None:
    """Let the next word go over a new connection."""
    await bench.clients.commands.connection_pool.disconnect()


async def test_a_rebuilder_that_lost_its_lock_removes_nothing(bench: Bench, settings: Settings) -> None:
    """It was paused for longer than its lock lives; another has rebuilt, and what lives now is not touched."""
    await lose(bench)
    late = Queue(bench.clients, settings, now_ms=bench.time)
    assert await needed(late, settings)
    token = await late.rebuild.begin()
    assert token is not None
    await bench.clients.commands.delete(bench.queue.keys.named("rebuild"))
    assert await needed(bench.queue, settings)
    own = await bench.queue.rebuild.begin()
    assert own is not None
    await bench.queue.rebuild.wipe(own, settings.lanes)
    task = device_task(1, bench.time)
    await bench.queue.rebuilding(own).enqueue([Placement(task)])
    await bench.queue.rebuild.open(own)
    for step in (
        late.rebuild.wipe(token, settings.lanes),
        late.rebuilding(token).enqueue([Placement(device_task(2, bench.time))]),
        late.rebuild.open(token),
    ):
        with pytest.raises(GenerationLost):
            await step
    assert await bench.serve(5) == [task.id]


async def test_a_late_beginning_does_not_close_an_open_gate(bench: Bench, settings: Settings) -> None:
    """Two dispatchers find the need; the slower one finds it gone when it comes to begin."""
    await lose(bench)
    slow = Queue(bench.clients, settings, now_ms=bench.time)
    assert await needed(slow, settings)
    assert await needed(bench.queue, settings)
    token = await bench.queue.rebuild.begin()
    assert token is not None
    assert await slow.rebuild.begin() is None
    await bench.queue.rebuild.open(token)
    assert await slow.rebuild.begin() is None
    assert await bench.queue.is_open()
    assert not await needed(slow, settings)


async def test_a_rebuild_that_failed_is_begun_anew_at_once(bench: Bench, settings: Settings) -> None:
    """Its own lock does not keep it waiting; what is still on its way from the first attempt is refused."""
    await lose(bench)
    assert await needed(bench.queue, settings)
    first = await bench.queue.rebuild.begin()
    assert first is not None
    other = Queue(bench.clients, settings, now_ms=bench.time)
    assert await needed(other, settings)
    assert await other.rebuild.begin() is None
    second = await bench.queue.rebuild.begin()
    assert second is not None
    with pytest.raises(GenerationLost):
        await bench.queue.rebuild.wipe(first, settings.lanes)
    await bench.queue.rebuild.wipe(second, settings.lanes)
    await bench.queue.rebuild.open(second)
    assert await bench.queue.is_open()


async def test_a_long_rebuild_keeps_its_lock(bench: Bench, settings: Settings) -> None:
    """Every call prolongs it; no other dispatcher may begin before it has been silent for as long as a lock lives."""
    await lose(bench)
    assert await needed(bench.queue, settings)
    token = await bench.queue.rebuild.begin()
    assert token is not None
    lock = bench.queue.keys.named("rebuild")
    await bench.clients.commands.pexpire(lock, 500)
    await bench.queue.rebuilding(token).enqueue([Placement(device_task(1, bench.time))])
    assert await bench.clients.commands.pttl(lock) > 5000
    await bench.clients.commands.pexpire(lock, 500)
    await bench.queue.rebuild.wipe(token, settings.lanes)
    assert await bench.clients.commands.pttl(lock) > 5000


async def test_a_rebuild_that_crossed_to_another_server_does_not_count(bench: Bench, settings: Settings) -> None:
    """What was queued before the server changed may be lost with it: the gate stays closed until a new rebuild."""
    await lose(bench)
    assert await needed(bench.queue, settings)
    token = await bench.queue.rebuild.begin()
    assert token is not None
    here, bench.clients.watch.run_id = bench.clients.watch.run_id, "f" * 40
    foreign = token.replace(str(here), "f" * 40)
    await bench.clients.commands.set(bench.queue.keys.named("rebuild"), foreign, ex=30)
    await reconnect(bench)
    with pytest.raises(StoreUnavailable):
        # The connection that is made for it finds another server than the one on which the rebuild began.
        await bench.queue.rebuilding(foreign).enqueue([Placement(device_task(1, bench.time))])
    # Over a connection that is there already it is said; the generation then names the old server.
    await bench.clients.commands.ping()
    await bench.queue.rebuild.open(foreign)
    assert not await bench.queue.is_open()
    assert await needed(bench.queue, settings)


async def test_nothing_is_said_to_another_server(bench: Bench) -> None:
    """An old snapshot carries a valid marker; the first word over a new connection must not be believed by it."""
    told = "0" * 32 + "@" + "f" * 40
    await bench.clients.commands.set(bench.queue.keys.generation, told)
    bench.queue.generation, bench.clients.watch.run_id = told, "f" * 40
    task = device_task(1, bench.time)
    await reconnect(bench)
    with pytest.raises(StoreUnavailable):
        await bench.enqueue(task)
    with pytest.raises(GenerationLost):
        await bench.enqueue(task)
    assert await bench.queue.unknown([task.id]) == [task.id]


@pytest.mark.parametrize("how", ["unlink", "xgroup"])
async def test_a_missing_stream_is_a_loss(bench: Bench, settings: Settings, how: str) -> None:
    """An evicted stream, or a lane that is new, is found and made by a rebuild; until then the store is away."""
    task = device_task(1, bench.time)
    await bench.enqueue(task)
    await bench.serve(1)
    assert not await needed(bench.queue, settings)
    stream = bench.queue.keys.stream("text")
    if how == "unlink":
        await bench.clients.commands.unlink(stream)
    else:
        await bench.clients.commands.xgroup_destroy(stream, "runners")
    with pytest.raises(GenerationLost):
        await bench.queue.scripts.renew(bench.consumer, [(task.id, 1)], lease_seconds=60)
    with pytest.raises(GenerationLost):
        await bench.queue.read("text", bench.consumer, count=1, block_seconds=0.01)
    assert await needed(bench.queue, settings)
    assert await bench.queue.rebuild.is_needed((*settings.lanes, "new"), check_policy=False)
    token = await bench.queue.rebuild.begin()
    assert token is not None
    await bench.queue.rebuild.wipe(token, (*settings.lanes, "new"))
    await bench.queue.rebuild.open(token)
    assert not await bench.queue.rebuild.is_needed((*settings.lanes, "new"), check_policy=False)
