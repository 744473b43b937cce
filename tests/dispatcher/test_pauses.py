"""Redis has paused what the ledger says is paused."""

from __future__ import annotations

from detectsched.db import control
from detectsched.db.audit import Actor
from detectsched.dispatcher.pauses import PauseKeeper
from detectsched.queueing.queue import paused_lane, paused_subject, paused_tenant
from detectsched.settings import Settings
from detectsched.task import DEFAULT_TENANT, QueueId
from tests.support.actors import Bench, device_task, mac_number
from tests.support.system import opened

BY = Actor("test")
DEVICE = paused_subject(QueueId.of_device(DEFAULT_TENANT, "text", mac_number(1)))


async def test_what_redis_was_not_told_is_mended(settings: Settings) -> None:
    """A pause and a resume that got no further than the ledger hold after two turns, and not after one."""
    async with opened(settings) as system:
        bench = await Bench.opened(settings)
        keeper = PauseKeeper(bench.queue, system.ledger, settings)
        task = device_task(1, bench.time)
        await bench.enqueue(task)
        await control.pause(system.ledger, DEVICE, tenant=DEFAULT_TENANT, reason="", by=BY)
        assert await keeper.run_once() == 0, "it may be on its way"
        assert await keeper.run_once() == 1
        assert await bench.serve(5) == []
        assert await keeper.run_once() == 0, "nothing is left to be mended"
        await control.resume(system.ledger, DEVICE, tenant=DEFAULT_TENANT, by=BY)
        assert [await keeper.run_once() for _ in range(3)] == [0, 1, 0]
        assert await bench.serve(5) == [task.id]
        await bench.clients.close()


async def test_a_decision_on_its_way_is_left_alone(settings: Settings) -> None:
    """A difference that is gone at the next look was none."""
    async with opened(settings) as system:
        bench = await Bench.opened(settings)
        keeper = PauseKeeper(bench.queue, system.ledger, settings)
        for what in (paused_lane("text"), paused_tenant(DEFAULT_TENANT)):
            await control.pause(system.ledger, what, tenant=None, reason="", by=BY)
            assert await keeper.run_once() == 0
            await bench.queue.scripts.pause(what, paused=True, lanes=settings.lanes)
            assert await keeper.run_once() == 0
            await control.resume(system.ledger, what, tenant=None, by=BY)
            assert await keeper.run_once() == 0
            await bench.queue.scripts.pause(what, paused=False, lanes=settings.lanes)
        assert await bench.queue.paused() == {}
        await bench.clients.close()
