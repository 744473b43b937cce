"""What is in hand: each delivery once, and nothing that keeps a runner from stopping."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from pydantic import SecretStr

from detectsched.attempt import Ending
from detectsched.db.connection import Ledger
from detectsched.queueing.connection import RedisClients
from detectsched.queueing.queue import Queue
from detectsched.runner.completer import Completer
from detectsched.runner.desk import Desk, Job
from detectsched.runner.outcome import Stop
from detectsched.settings import PostgresSettings, Settings
from detectsched.task import DEFAULT_TENANT, Delivery, TaskState, new_task_id

FIRST = Delivery(new_task_id(), 1, "text", "1-1")


async def test_a_delivery_that_comes_twice_is_worked_on_once() -> None:
    """The same delivery again changes nothing; a newer one of the same task tells that the older is lost."""
    jobs: list[Job] = []

    async def work(job: Job) -> None:
        jobs.append(job)
        job.examining = asyncio.create_task(asyncio.Event().wait())
        await asyncio.wait([job.examining])

    desk = Desk(work, grace_seconds=0.0)
    for delivery in (FIRST, replace(FIRST, entry_id="2-1"), replace(FIRST, number=2), replace(FIRST, number=1)):
        desk.take(delivery)
        await asyncio.sleep(0)
    assert [(job.delivery.number, job.stop) for job in jobs] == [(1, Stop.LEASE_LOST), (2, None)]
    await desk.stop()
    assert [job.stop for job in jobs] == [Stop.LEASE_LOST, Stop.SHUTDOWN]


@pytest.mark.parametrize("told_before", [[], [Stop.CANCEL]])
async def test_a_runner_stops_while_postgresql_is_away(settings: Settings, told_before: list[Stop]) -> None:
    """What cannot be written when the grace is over is left to the lease; the runner does not wait for PostgreSQL."""
    clients = RedisClients(settings.redis, name="test")
    nowhere = Ledger(PostgresSettings(url=SecretStr("postgresql://postgres@127.0.0.1:1/nobody")))
    completer = Completer(Queue(clients, settings), nowhere, runner="host:1:boot", dead_letters_kept=0)
    written: list[bool | None] = []

    async def work(job: Job) -> None:
        ending = Ending(job.delivery.task_id, DEFAULT_TENANT, 1, TaskState.SUCCEEDED)
        written.append(await completer.persist(job, ending))

    desk = Desk(work, grace_seconds=0.1)
    desk.take(FIRST)
    for reason in told_before:
        desk.interrupt(FIRST.task_id, reason)
    await asyncio.wait_for(desk.stop(), 5.0)
    assert written == [None]
    await nowhere.close()
    await clients.close()


async def test_what_a_job_took_is_in_hand_in_its_place() -> None:
    """From one moment to the next, also while the desk is being stopped: then it is interrupted like the others."""
    second, third = replace(FIRST, task_id=new_task_id()), replace(FIRST, task_id=new_task_id())
    successors = {FIRST: second, second: third}
    in_hand: list[int] = []

    async def work(job: Job) -> Delivery | None:
        in_hand.append(desk.in_hand("text"))
        if job.delivery == third:
            job.examining = asyncio.create_task(asyncio.Event().wait())
            await asyncio.wait([job.examining])
        return successors.get(job.delivery)

    desk = Desk(work, grace_seconds=0.05)
    desk.take(FIRST)
    await asyncio.wait_for(desk.stop(), 5.0)
    assert in_hand == [1, 1, 1]
    assert desk.jobs() == []
