"""The queues are made anew from the ledger, however many pages that takes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chaos.snapshot import Snapshot
from detectsched.attempt import Started
from detectsched.db.accept import accept
from detectsched.db.connection import Ledger
from detectsched.db.open_tasks import open_page
from detectsched.db.starts import start
from detectsched.dispatcher.placing import placement_of
from detectsched.dispatcher.rebuilder import Rebuilder
from detectsched.settings import Settings
from detectsched.task import DEFAULT_TENANT, Delivery, QueueId
from tests.support.actors import Bench, new_text


@pytest.mark.parametrize("page", [7, 50, 10_000])
async def test_everything_open_comes_back_in_its_order(
    bench: Bench, ledger: Ledger, settings: Settings, page: int
) -> None:
    """Waiting tasks in their queues by sequence; one that runs is held for its runner."""
    tasks = [new_text(number % 5) for number in range(130)]
    door = QueueId.of_object(DEFAULT_TENANT, "door")
    tasks[::6] = [replace(task, queue=door, mac=None, object="door") for task in tasks[::6]]
    rows = await accept(ledger, tasks)
    [started] = await start(ledger, [Delivery(rows[1].task.id, 1, "text", "1-1")], runner="host:1:boot")
    assert isinstance(started, Started)
    bench.time.ms = rows[0].task.created_ms
    await bench.clients.commands.flushall()
    assert await Rebuilder(bench.queue, ledger, settings, page=page).run_once() == len(rows)
    await bench.queue.join()
    found = await Snapshot.read(bench.queue, bench.clients.commands)
    now_ms = await bench.queue.now_ms()
    placements = [
        placement_of(row, settings.scheduler, now_ms=now_ms) for row in await open_page(ledger, after=0, limit=1000)
    ]
    assert found.faults({one.task.id: one for one in placements}, bench.time.ms) == []
    assert found.state(rows[1].task.id) == "held"
    for queue in {row.task.queue for row in rows}:
        own = [row.task.id for row in rows if row.task.queue == queue and row is not rows[1]]
        assert found.waiting(str(queue)) == own
