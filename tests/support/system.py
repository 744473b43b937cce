"""A whole system inside the test process: dispatcher and text runner on the test's own stores."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

from detectsched.db.accept import NewTask, accept
from detectsched.db.connection import Ledger
from detectsched.db.reads import TaskView, get_task
from detectsched.dispatcher.daemon import dispatcher_services
from detectsched.lifecycle import Service, stop_in_reverse
from detectsched.queueing.connection import RedisClients
from detectsched.queueing.queue import Placement, Queue
from detectsched.runner.daemon import runner_services
from detectsched.settings import Settings
from detectsched.storage.blobs import BlobStore, open_blobs
from detectsched.task import DEFAULT_TENANT, TERMINAL_STATES, TaskState
from tests.support.waiting import wait_until


@dataclass
class System:
    """The stores of a running system, and what tests do with it."""

    settings: Settings
    queue: Queue
    ledger: Ledger
    blobs: BlobStore

    async def submit(self, *tasks: NewTask) -> list[UUID]:
        """Accept tasks and queue them, as the API does."""
        rows = await accept(self.ledger, tasks)
        await self.queue.scripts.enqueue([Placement(row.task, row.entitlement) for row in rows])
        return [row.task.id for row in rows]

    async def view(self, task_id: UUID) -> TaskView:
        """Return a task with its results."""
        view = await get_task(self.ledger, DEFAULT_TENANT, task_id)
        assert view is not None
        return view

    async def state(self, task_id: UUID) -> TaskState:
        """Return a task's state."""
        return TaskState((await self.view(task_id)).task.state)

    async def wait_for(self, task_id: UUID, state: TaskState, timeout: float = 15.0) -> TaskView:  # noqa: ASYNC109
        """Wait until a task is in a state."""

        async def reached() -> bool:
            return await self.state(task_id) is state

        await wait_until(reached, f"task {task_id} {state}", timeout)
        return await self.view(task_id)

    async def wait_for_all(self, task_ids: Sequence[UUID], timeout: float = 30.0) -> list[TaskState]:  # noqa: ASYNC109
        """Wait until every task is terminal; return their states."""

        async def over() -> bool:
            async with self.ledger.connection() as connection:
                open_count = await connection.fetchval(
                    "SELECT count(*) FROM task WHERE id = ANY ($1::uuid[]) AND state IN ('queued', 'running')",
                    list(task_ids),
                )
            return bool(open_count == 0)

        await wait_until(over, "every task terminal", timeout)
        states = [await self.state(task_id) for task_id in task_ids]
        assert set(states) <= TERMINAL_STATES
        return states

    async def wait_until_at_rest(self) -> None:
        """Wait until Redis holds nothing that waits or runs."""

        async def at_rest() -> bool:
            level = await self.queue.level(self.settings.lanes)
            return not any(count for name, count in level.items() if not name.startswith("completed"))

        await wait_until(at_rest, "Redis at rest")


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[System]:
    """Give a system's stores, without anything running."""
    clients = RedisClients(settings.redis, name="test")
    ledger, blobs = Ledger(settings.postgres, settings.encryption), open_blobs(settings.blobs)
    try:
        yield System(settings, Queue(clients, settings), ledger, blobs)
    finally:
        await clients.close()
        await ledger.close()
        await blobs.close()


@asynccontextmanager
async def running(services: Sequence[Service]) -> AsyncIterator[None]:
    """Run services, in their order, and stop them in reverse."""
    started: list[Service] = []
    try:
        for service in services:
            started.append(service)
            await service.start()
        yield
    finally:
        await stop_in_reverse(started)


@asynccontextmanager
async def dispatching(settings: Settings) -> AsyncIterator[System]:
    """Give a system with a dispatcher of its own stores; the gate is open."""
    async with (
        opened(settings) as own,
        opened(settings) as system,
        running(dispatcher_services(own.queue, own.ledger, settings)),
    ):
        await wait_until(system.queue.is_open, "the gate open")
        yield system


@asynccontextmanager
async def runner(settings: Settings, *lanes: str) -> AsyncIterator[System]:
    """Run a runner with stores of its own."""
    async with (
        opened(settings) as own,
        running(runner_services(own.queue, own.ledger, own.blobs, settings, lanes)),
    ):
        yield own
