"""Fetching deliveries: whatever is lost, doubled or damaged on the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from detectsched.queueing.keys import GROUP
from detectsched.queueing.queue import Completion, Taker
from detectsched.runner.desk import Desk, Job
from detectsched.runner.reader import LaneReader
from detectsched.settings import RunnerSettings, SchedulerSettings, Settings
from detectsched.task import TaskState
from tests.support.actors import DEFAULT_TURNS, Bench, device_task, new_text
from tests.support.system import dispatching, runner
from tests.support.waiting import wait_until


@pytest.fixture
async def bench(settings: Settings) -> AsyncIterator[Bench]:
    """Give an opened queue."""
    opened = await Bench.opened(settings)
    yield opened
    await opened.clients.close()


async def stay(job: Job) -> None:
    """Work until the end of time, or an interruption."""
    if job.stop is not None:
        return
    job.examining = asyncio.create_task(asyncio.Event().wait())
    await asyncio.wait([job.examining])


def reader_of(bench: Bench, desk: Desk, *, slots: int = 2) -> LaneReader:
    """Return a reader of the text lane."""
    return LaneReader(
        bench.queue,
        desk,
        lane="text",
        consumer=bench.consumer,
        slots=slots,
        may_fetch=lambda: True,
        on_return=lambda: None,
    )


async def send(bench: Bench, count: int) -> None:
    """Put tasks into the stream of the text lane."""
    await bench.enqueue(*(device_task(1, bench.time) for _ in range(count)))
    await bench.queue.scripts.dispatch("text", capacity=100, live=[], turns=DEFAULT_TURNS)


async def test_unseen_deliveries_are_taken_and_no_more_than_there_are_slots(bench: Bench) -> None:
    """After a lost reply the reader works on what stands in its name already, and fetches nothing on top of it."""
    await send(bench, 5)
    await bench.queue.read("text", bench.consumer, count=2, block_seconds=0.01)
    desk = Desk(stay, grace_seconds=0.0)
    reader = reader_of(bench, desk)
    await reader.run_once()
    assert desk.in_hand("text") == 2
    summary = await bench.clients.commands.xpending(bench.queue.keys.stream("text"), GROUP)
    assert summary["pending"] == 2
    await desk.stop()


async def test_a_next_task_that_was_never_seen_is_taken(bench: Bench) -> None:
    """The reply that brought it was lost: the reader is told to look, and works on it before it fetches anything."""
    await send(bench, 2)
    [first] = await bench.queue.read("text", bench.consumer, count=1, block_seconds=0.01)
    desk = Desk(stay, grace_seconds=0.0)
    reader = reader_of(bench, desk, slots=1)
    desk.take(first)
    await reader.run_once()
    await desk.stop()
    done = Completion(first.task_id, first.number, taker=Taker(bench.consumer, "text"))
    [lost] = await bench.queue.scripts.succeed([done])
    assert lost.next is not None
    reader.expect_unseen()
    await reader.run_once()
    assert [job.delivery.task_id for job in desk.jobs()] == [lost.next.task_id]
    await desk.stop()


async def test_looking_for_unseen_deliveries_prolongs_no_lease(bench: Bench) -> None:
    """What stands in a runner's name and is in nobody's hands is reclaimed, however often its connection breaks."""
    await send(bench, 1)
    [delivery] = await bench.queue.read("text", bench.consumer, count=1, block_seconds=0.01)
    stream = bench.queue.keys.stream("text")
    claim = bench.clients.commands.xclaim
    await claim(stream, GROUP, bench.consumer, 0, [delivery.entry_id], idle=61_000, justid=True)
    assert await bench.queue.read_own("text", bench.consumer) == [delivery]
    [lost] = await bench.queue.scripts.reclaim("text", "reaper", lease_seconds=60, limit=10)
    assert lost.task_id == delivery.task_id


async def test_malformed_entries_are_passed_over(bench: Bench) -> None:
    """A damaged entry kills no reader; the reaper removes it, and the others are served."""
    stream = bench.queue.keys.stream("text")
    for fields in ({"t": "garbage", "d": "1"}, {"t": b"\xff\xfe", "d": "1"}, {"other": "1"}, {"t": "", "d": b"\xff"}):
        await bench.clients.commands.xadd(stream, fields)
    await send(bench, 1)
    desk = Desk(stay, grace_seconds=0.0)
    reader = reader_of(bench, desk, slots=10)
    assert await reader.run_once() == 1
    assert len(await bench.queue.read_own("text", bench.consumer)) == 1
    assert len(await bench.queue.scripts.reclaim("text", "reaper", lease_seconds=0, limit=10)) == 1
    assert await bench.clients.commands.xlen(stream) == 1
    await desk.stop()


async def test_a_runner_that_redis_forgot_reports_itself_at_once(settings: Settings) -> None:
    """After FLUSHALL work is handed out again as soon as the queues are rebuilt, not at the next heartbeat."""
    slow = settings.model_copy(
        update={
            "runner": RunnerSettings(heartbeat_seconds=30, ttl_seconds=90),
            "scheduler": SchedulerSettings(lease_seconds=90, safety_tick_seconds=0.2),
        }
    )
    async with dispatching(slow) as system, runner(slow, "text"):
        await system.wait_for((await system.submit(new_text(1)))[0], TaskState.SUCCEEDED)
        await system.queue._redis.flushall()
        await wait_until(system.queue.is_open, "the gate open again")
        await system.wait_for((await system.submit(new_text(1)))[0], TaskState.SUCCEEDED, 8)
        await system.wait_until_at_rest()
