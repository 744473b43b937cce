"""What a runner does under pressure: it fetches nothing, gives back what it has not started, and resumes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar
from uuid import UUID

import pytest
from redis.asyncio import from_url

from detectsched.db.connection import Ledger
from detectsched.lifecycle import Service
from detectsched.runner.completer import Completer
from detectsched.runner.daemon import runner_services
from detectsched.runner.desk import Desk, Job
from detectsched.runner.executor import Executor
from detectsched.runner.health import Health
from detectsched.runner.heartbeat import Heartbeat
from detectsched.runner.matchers import CompiledLists
from detectsched.runner.reader import LaneReader
from detectsched.runner.worker import Worker
from detectsched.settings import Settings
from detectsched.task import TaskState
from tests.support.actors import DEFAULT_TURNS, Bench, device_task, new_text
from tests.support.container import Container
from tests.support.system import System, dispatching, opened, runner, running
from tests.support.waiting import wait_until

S = TypeVar("S", bound=Service)


@pytest.fixture
def container(tmp_path: Path) -> Container:
    """Give the container that the runner under test believes to be in."""
    directory = tmp_path / "container"
    directory.mkdir()
    return Container(directory)


def the(kind: type[S], services: Sequence[Service]) -> S:
    """Return the one service of a kind."""
    [found] = [service for service in services if isinstance(service, kind)]
    return found


@asynccontextmanager
async def runner_in(container: Container, settings: Settings, *, reads: bool = True) -> AsyncIterator[list[Service]]:
    """Run a text runner that measures this container; without its readers, a test can hand it deliveries itself."""
    async with opened(settings) as own:
        services = runner_services(own.queue, own.ledger, own.blobs, settings, ["text"])
        the(Health, services)._probe = container.probe()
        chosen = [service for service in services if reads or not isinstance(service, LaneReader)]
        async with running(chosen):
            yield chosen


async def becomes(services: Sequence[Service], state: str) -> None:
    """Wait until a runner has measured itself into a state and the registry knows."""
    health = the(Health, services)

    def measured() -> bool:
        health.wake()
        return health.state == state

    await wait_until(measured, f"the runner {state}")
    await the(Heartbeat, services).published()


async def started(system: System, task_id: UUID) -> tuple[str, int]:
    """Return which runner has started a task, and by which delivery."""
    async with system.ledger.connection() as connection:
        row = await connection.fetchrow("SELECT runner, delivery FROM task WHERE id = $1", task_id)
    assert row is not None
    return str(row["runner"]), int(row["delivery"])


async def nobody_reads(settings: Settings) -> None:
    """Wait until no runner blocks on a stream: what it began to wait for while healthy it may still get."""
    async with from_url(settings.redis.url.get_secret_value()) as client:

        async def quiet() -> bool:
            return not any(each["cmd"] == "xreadgroup" and "b" in each["flags"] for each in await client.client_list())

        await wait_until(quiet, "no reader waits")


async def test_a_runner_under_pressure_fetches_nothing_and_resumes(settings: Settings, container: Container) -> None:
    """Others do its part meanwhile, what lies in its lane's stream included; afterwards it works as before."""
    async with dispatching(settings) as system, runner_in(container, settings) as pressed:
        [before] = await system.submit(new_text(1))
        await system.wait_for(before, TaskState.SUCCEEDED)
        ours, _ = await started(system, before)
        container.fill(0.99)
        await becomes(pressed, "busy")
        [record] = await system.queue.registry.workers()
        assert record.state == "busy"
        assert record.reason.startswith("memory use of others ")
        await nobody_reads(settings)
        waiting = await system.submit(*(new_text(device) for device in range(5)))
        # As if it had been sent before the dispatcher heard of the pressure: it lies in the stream.
        await system.queue.scripts.dispatch("text", capacity=5, live=[ours], turns=DEFAULT_TURNS)
        async with runner(settings, "text"):
            assert set(await system.wait_for_all(waiting)) == {TaskState.SUCCEEDED}
        by = [await started(system, task_id) for task_id in waiting]
        assert ours not in {name for name, _ in by}
        assert {number for _, number in by} == {1}, "it was fetched and given back, not left alone"
        container.fill(0.3)
        [after] = await system.submit(new_text(1))
        await becomes(pressed, "healthy")
        await system.wait_for(after, TaskState.SUCCEEDED)
        assert (await started(system, after))[0] == ours
        await system.wait_until_at_rest()


async def test_what_was_fetched_but_not_started_is_given_back(settings: Settings, container: Container) -> None:
    """A delivery that arrives when pressure has come goes back to its queue: no start, no fence, no attempt spent."""
    async with dispatching(settings) as system, runner_in(container, settings, reads=False) as pressed:
        container.fill(0.99)
        await becomes(pressed, "busy")
        [record] = await system.queue.registry.workers()
        [task_id] = await system.submit(new_text(1))
        await system.queue.scripts.dispatch("text", capacity=1, live=[record.consumer], turns=DEFAULT_TURNS)
        [delivery] = await system.queue.read("text", record.consumer, count=1, block_seconds=1.0)
        desk = the(Desk, pressed)
        desk.take(delivery)
        await wait_until(lambda: not desk.jobs(), "the delivery out of its hands")
        level = await system.queue.level(("text",))
        assert (level["total_pending"], level["outstanding:text"]) == (1, 0)
        task = (await system.view(task_id)).task
        assert (task.state, task.fence, task.attempts) == ("queued", 0, 0)
        async with runner(settings, "text"):
            view = await system.wait_for(task_id, TaskState.SUCCEEDED)
        assert (view.task.fence, view.task.attempts) == (1, 0)


async def test_a_runner_says_busy_before_it_gives_back(settings: Settings) -> None:
    """Else the dispatcher, believing it healthy, could send the task straight back to it."""
    bench = await Bench.opened(settings)
    ledger = Ledger(settings.postgres)
    completer = Completer(bench.queue, ledger, runner=bench.consumer, dead_letters_kept=0)
    held: list[int] = []

    async def published() -> None:
        held.append((await bench.queue.level(("text",)))["outstanding:text"])

    worker = Worker(
        Executor(None, _NoBlobs(), CompiledLists(ledger)),
        completer,
        settings,
        may_work=lambda: False,
        published=published,
    )
    await bench.enqueue(device_task(1, bench.time))
    await bench.queue.scripts.dispatch("text", capacity=1, live=[bench.consumer], turns=DEFAULT_TURNS)
    [delivery] = await bench.queue.read("text", bench.consumer, count=1, block_seconds=0.01)
    await worker.work(Job(delivery))
    assert held == [1]
    assert (await bench.queue.level(("text",)))["outstanding:text"] == 0
    assert await bench.serve(1) == [delivery.task_id]
    await ledger.close()
    await bench.clients.close()


class _NoBlobs:
    async def get(self, key: str) -> bytes:
        """Say that a task was worked on that must not be."""
        raise AssertionError(key)
