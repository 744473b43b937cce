"""What becomes of deliveries whose owner fell silent: first PostgreSQL is put right, then Redis."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from detectsched import failpoints
from detectsched.db.connection import Ledger
from detectsched.db.dead_letters import dead_letter_documents
from detectsched.db.transitions import recover
from detectsched.queueing.queue import Completion, GivenBack, Queue
from detectsched.settings import SchedulerSettings
from detectsched.task import Delivery, TaskState
from detectsched.telemetry import get_logger

log = get_logger(__name__)


async def recover_deliveries(
    queue: Queue, ledger: Ledger, lost: Sequence[Delivery], settings: SchedulerSettings
) -> dict[UUID, TaskState]:
    """Return tasks of lost owners to their queues, or end them; return where each stands now.

    Safe to repeat: if this process dies between the two stores, the next reaper finds PostgreSQL right already.
    """
    if not lost:
        return {}
    states = await recover(
        ledger, [(delivery.task_id, delivery.number) for delivery in lost], max_attempts=settings.max_attempts
    )
    failpoints.hit("recover.after_commit")
    back = [
        GivenBack(delivery.task_id, delivery.number)
        for delivery in lost
        if states.get(delivery.task_id) is TaskState.QUEUED
    ]
    # A task that PostgreSQL has ended, or does not know at all, has nothing to wait for in Redis.
    over = [
        Completion(delivery.task_id, delivery.number)
        for delivery in lost
        if states.get(delivery.task_id) not in {TaskState.QUEUED, TaskState.RUNNING}
    ]
    if back:
        await queue.scripts.release(back)
    if over:
        letters = await dead_letter_documents(ledger, [done.task_id for done in over])
        await queue.mirror_dead_letters(letters, keep=settings.dead_letters_kept)
        await queue.scripts.complete(over)
    log.warning("recovered tasks of a silent runner", returned=len(back), ended=len(over))
    return states
