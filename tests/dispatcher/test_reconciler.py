"""Tasks that Redis does not know: lost ones are queued, ended ones are not."""

from __future__ import annotations

from uuid import UUID

from detectsched.attempt import Ending, Started
from detectsched.db.accept import accept
from detectsched.db.connection import Ledger
from detectsched.db.results import end
from detectsched.db.starts import start
from detectsched.dispatcher.reconciler import Reconciler
from detectsched.queueing.queue import Queue
from detectsched.settings import Settings
from detectsched.task import DEFAULT_TENANT, Delivery, TaskState
from tests.support.actors import Bench, new_text


class Overtaken(Queue):
    """A queue that is asked just after the task has ended and was forgotten."""

    ledger: Ledger
    started: Started

    async def unknown(self, task_ids: list[UUID]) -> list[UUID]:
        """End the task, then look."""
        task_id = self.started.delivery.task_id
        await end(self.ledger, [Ending(task_id, DEFAULT_TENANT, self.started.fence, TaskState.SUCCEEDED)])
        return await super().unknown(task_ids)


async def test_a_task_that_ends_meanwhile_is_not_held_again(settings: Settings) -> None:
    """The reconciler read it as running; held for a lease it would block its object for nothing."""
    bench = await Bench.opened(settings)
    queue, ledger = Overtaken(bench.clients, settings), Ledger(settings.postgres)
    [ended, lost] = await accept(ledger, [new_text(1), new_text(2)])
    [started] = await start(ledger, [Delivery(ended.task.id, 1, "text", "1-1")], runner="host:1:boot")
    assert isinstance(started, Started)
    queue.ledger, queue.started = ledger, started
    reconciler = Reconciler(queue, ledger, settings.scheduler, settings.lanes, patience_seconds=0.0)
    assert await reconciler.run_once() == 1
    assert await Queue.unknown(queue, [ended.task.id, lost.task.id]) == [ended.task.id]
    assert await reconciler.run_once() == 0
    await ledger.close()
    await bench.clients.close()
