"""Leases: renewed while the work goes on, and the work is stopped when they cannot be."""

from __future__ import annotations

import asyncio

import pytest

from detectsched.clock import monotonic
from detectsched.errors import StoreUnavailable
from detectsched.queueing.queue import GivenBack
from detectsched.runner.desk import Desk, Job
from detectsched.runner.leases import Leases
from detectsched.runner.outcome import Stop
from detectsched.settings import Settings
from tests.support.actors import DEFAULT_TURNS, Bench, device_task


async def in_hand(settings: Settings) -> tuple[Bench, Desk, Leases, list[Job]]:
    """Return a desk that works on one served task until it is interrupted."""
    bench = await Bench.opened(settings)
    task = device_task(1, bench.time)
    await bench.enqueue(task)
    await bench.queue.scripts.dispatch("text", capacity=1, live=[bench.consumer], turns=DEFAULT_TURNS)
    [delivery] = await bench.queue.read("text", bench.consumer, count=1, block_seconds=0.01)
    jobs: list[Job] = []

    async def work(job: Job) -> None:
        jobs.append(job)
        job.examining = asyncio.create_task(asyncio.Event().wait())
        await asyncio.wait([job.examining])

    desk = Desk(work, grace_seconds=0.0)
    desk.take(delivery)
    await asyncio.sleep(0)
    return bench, desk, Leases(bench.queue, desk, bench.consumer, settings), jobs


async def test_a_lease_is_renewed_until_it_belongs_to_another(settings: Settings) -> None:
    """Renewal goes on while the delivery is ours; when it was given away, the work is stopped."""
    bench, desk, leases, [job] = await in_hand(settings)
    seen = [(await leases.run_once(), job.stop)]
    await bench.queue.scripts.release([GivenBack(job.delivery.task_id, job.delivery.number)])
    seen.append((await leases.run_once(), job.stop))
    assert seen == [(1, None), (0, Stop.LEASE_LOST)]
    await desk.stop()
    await bench.clients.close()


async def test_work_stops_when_renewal_has_failed_for_two_thirds_of_the_lease(settings: Settings) -> None:
    """Before another runner may take a task over, its owner has stopped working on it."""
    bench, desk, leases, [job] = await in_hand(settings)
    await bench.clients.commands.delete(bench.queue.keys.generation)
    for stop, overdue in ((None, 0.5), (Stop.LEASE_LOST, 0.7)):
        job.renewed_at = monotonic() - settings.scheduler.lease_seconds * overdue
        with pytest.raises(StoreUnavailable):
            await leases.run_once()
        assert job.stop is stop
    await desk.stop()
    await bench.clients.close()


async def test_a_cancelled_task_is_interrupted_by_its_renewal(settings: Settings) -> None:
    """Also without the hint a cancelled task is stopped: its renewal says so."""
    bench, desk, leases, [job] = await in_hand(settings)
    await bench.queue.scripts.withdraw([job.delivery.task_id])
    assert await leases.run_once() == 1
    assert job.stop is Stop.CANCEL
    await desk.stop()
    await bench.clients.close()
