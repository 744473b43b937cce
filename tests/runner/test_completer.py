"""Writing how a try ended, when the answer of PostgreSQL is lost."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from detectsched.attempt import Ending, Started
from detectsched.db.accept import accept
from detectsched.db.connection import Connection, Ledger
from detectsched.db.starts import start
from detectsched.db.transitions import recover
from detectsched.errors import StoreUnavailable
from detectsched.queueing.connection import RedisClients
from detectsched.queueing.queue import Queue
from detectsched.runner.completer import Completer
from detectsched.runner.desk import Job
from detectsched.settings import Settings
from detectsched.task import DEFAULT_TENANT, Delivery, TaskState
from tests.support.actors import new_text


class Forgetful(Ledger):
    """A ledger that loses the answers to the next statements, after they were committed."""

    lost = 0

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Lend a connection, and lose what it answered."""
        async with super().connection() as connection:
            yield connection
        if self.lost:
            self.lost -= 1
            raise StoreUnavailable("the answer was lost")


@pytest.mark.parametrize(
    ("state", "recovered", "written"),
    [(TaskState.SUCCEEDED, False, True), (TaskState.QUEUED, False, True), (TaskState.SUCCEEDED, True, False)],
)
async def test_an_ending_whose_answer_was_lost_counts(
    settings: Settings, state: TaskState, *, recovered: bool, written: bool
) -> None:
    """The second try is fenced off by the first: the task is acknowledged all the same, instead of by its lease."""
    ledger, clients = Forgetful(settings.postgres), RedisClients(settings.redis, name="test")
    completer = Completer(Queue(clients, settings), ledger, runner="host:1:boot", dead_letters_kept=0)
    [row] = await accept(ledger, [new_text(1)])
    delivery = Delivery(row.task.id, 1, "text", "1-1")
    [started] = await start(ledger, [delivery], runner="host:1:boot")
    assert isinstance(started, Started)
    if recovered:
        await recover(ledger, [(row.task.id, 1)], max_attempts=3)
    ledger.lost = 1
    ending = Ending(row.task.id, DEFAULT_TENANT, started.fence, state)
    assert await completer.persist(Job(delivery), ending) is written
    await ledger.close()
    await clients.close()
