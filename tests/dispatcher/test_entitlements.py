"""Queues know what the ledger grants them."""

from __future__ import annotations

import pytest

from detectsched.db import control
from detectsched.db.audit import Actor
from detectsched.dispatcher import entitlements
from detectsched.dispatcher.entitlements import EntitlementKeeper
from detectsched.settings import Settings
from detectsched.task import DEFAULT_TENANT
from tests.support.actors import Bench, mac_number, new_text
from tests.support.system import opened


async def test_a_change_that_redis_was_not_told_is_said_again(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For all queues in which something is open, a few a turn, and then from the first again."""
    monkeypatch.setattr(entitlements, "_BATCH", 2)
    async with opened(settings) as system:
        bench = await Bench.opened(settings)
        await system.submit(*(new_text(device) for device in range(1, 6)))
        for device in range(1, 6):
            changes = {"weight": float(device)}
            await control.change_device(system.ledger, DEFAULT_TENANT, mac_number(device), changes, by=Actor("test"))
        keeper = EntitlementKeeper(system.queue, system.ledger, settings)
        assert [await keeper.run_once() for _ in range(4)] == [2, 2, 1, 2]
        queues = [task.queue for task in (new_text(device) for device in range(1, 6))]
        _, states = await system.queue.views.queues(queues)
        assert [state.weight for state in states] == [1.0, 2.0, 3.0, 4.0, 5.0]
        await bench.clients.close()
