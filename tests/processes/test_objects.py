"""The tasks of an object while its runners are paused and die: real processes, one task at a time all the same."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from itertools import pairwise
from uuid import UUID

from detectsched.clock import monotonic
from detectsched.db.accept import NewTask
from detectsched.db.models import Task
from detectsched.db.word_lists import publish
from detectsched.queueing.queue import WorkerRecord
from detectsched.settings import Settings
from detectsched.task import DEFAULT_TENANT, QueueId, TaskState
from detectsched.wordlist import Word
from tests.support.actors import new_text
from tests.support.outbox import Outbox
from tests.support.processes import Daemon, daemon
from tests.support.system import System, opened, runner
from tests.support.waiting import wait_until

ROOM_SECONDS = 1.5
"""For a busy machine: less than another lease."""


def of_door(text: str) -> NewTask:
    """Return a text of the one object."""
    queue = QueueId.of_object(DEFAULT_TENANT, "door")
    return replace(new_text(1, text), queue=queue, mac=None, object="door")


async def begun(stack: AsyncExitStack, settings: Settings) -> System:
    """Start a dispatcher; return its open system, in which hits are followed by a command."""
    system = await stack.enter_async_context(opened(settings))
    await stack.enter_async_context(daemon(settings, "dispatcher"))
    await wait_until(system.queue.is_open, "the gate open", 30)
    words = [Word("secret", level=2)]
    await publish(system.ledger, DEFAULT_TENANT, "words", words, name="W", is_default=True, by="test")
    await Outbox(system.ledger).policy()
    return system


async def stuck(stack: AsyncExitStack, settings: Settings, failpoint: str) -> Daemon:
    """Start a runner in which this will happen."""
    doomed = settings.model_copy(update={"failpoints": failpoint})
    victim = await stack.enter_async_context(daemon(doomed, "runner", "--lane", "text"))
    await victim.wait_for("started", 60)
    return victim


async def record_of(system: System, process: Daemon) -> WorkerRecord | None:
    """Return what a runner reports of itself."""
    workers = await system.queue.registry.workers()
    return next((worker for worker in workers if worker.pid == process.process.pid), None)


def in_turn(tasks: Sequence[Task]) -> bool:
    """Whether each of these ended tasks was started, at last, after the one before had ended."""
    pairs = [(before.finished_at, after.started_at) for before, after in pairwise(tasks)]
    return all(end is not None and begin is not None and end <= begin for end, begin in pairs)


async def commands(system: System) -> list[UUID]:
    """Return the tasks that were followed by a command, once for each."""
    return [row["task_id"] for row in await Outbox(system.ledger).rows("command")]


async def test_a_runner_paused_for_three_leases_sends_no_second_command(settings: Settings) -> None:
    """It wakes with a judgement in hand: refused, and counted; the object has gone on meanwhile, in order."""
    async with AsyncExitStack() as stack:
        system = await begun(stack, settings)
        lease = settings.scheduler.lease_seconds
        zombie = await stuck(stack, settings, f"run.before_result_commit=hang:{3 * lease}")
        first, second = await system.submit(of_door("a secret"), of_door("another secret"))
        await zombie.wait_for('"event": "failpoint"')
        zombie.process.send_signal(signal.SIGSTOP)
        paused = monotonic()
        await stack.enter_async_context(daemon(settings, "runner", "--lane", "text"))
        assert await system.wait_for_all([first, second]) == [TaskState.SUCCEEDED] * 2
        views = [await system.view(task) for task in (first, second)]
        assert [(view.task.fence, view.task.attempts) for view in views] == [(2, 1), (1, 0)]
        assert in_turn([view.task for view in views])
        assert sorted(await commands(system)) == sorted([first, second])
        await wait_until(lambda: monotonic() - paused > 3 * lease, "three leases over", 4 * lease)
        zombie.process.send_signal(signal.SIGCONT)

        async def counted() -> bool:
            record = await record_of(system, zombie)
            return record is not None and record.fenced == 1

        await wait_until(counted, lambda: f"a refusal counted; it said {zombie.output}", 30)
        assert sorted(await commands(system)) == sorted([first, second])
        assert [(await system.view(task)).task for task in (first, second)] == [view.task for view in views]
        await system.wait_until_at_rest()


async def test_a_dead_owner_is_replaced_within_lease_and_sweep(settings: Settings) -> None:
    """Killed in the middle of an object's first task: another starts it anew, and the others follow in order."""
    async with AsyncExitStack() as stack:
        system = await begun(stack, settings)
        scheduler = settings.scheduler
        doomed = await stuck(stack, settings, "run.after_start_mark=exit")
        tasks = await system.submit(*(of_door(f"text {number}") for number in range(3)))
        assert await doomed.ended() == 137
        lost = (await system.view(tasks[0])).task
        assert (lost.state, lost.fence) == ("running", 1)
        # Not a process: on a busy machine that takes longer to start than the lease lasts.
        await stack.enter_async_context(runner(settings, "text"))
        assert await system.wait_for_all(tasks) == [TaskState.SUCCEEDED] * 3
        ended = [(await system.view(task)).task for task in tasks]
        assert [(task.fence, task.attempts) for task in ended] == [(2, 1), (1, 0), (1, 0)]
        assert in_turn(ended)
        assert lost.started_at is not None
        assert ended[0].started_at is not None
        took = (ended[0].started_at - lost.started_at).total_seconds()
        assert took < scheduler.lease_seconds + scheduler.sweep_seconds + ROOM_SECONDS
