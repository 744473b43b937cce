"""Whatever dies, nothing is lost and nothing is done twice: real processes, killed and paused."""

from __future__ import annotations

import signal
from contextlib import AsyncExitStack

import pytest

from detectsched.db.word_lists import publish
from detectsched.demo.corpus import DEMO_WORDS, images
from detectsched.settings import Settings
from detectsched.task import DEFAULT_TENANT, TaskState
from detectsched.wordlist import Word
from tests.story.test_life_of_an_image import submit
from tests.support.actors import new_text
from tests.support.processes import daemon
from tests.support.system import System, opened
from tests.support.waiting import wait_until


async def count_results(system: System) -> tuple[int, int]:
    """Return how many tasks have succeeded, and how many detections there are."""
    async with system.ledger.connection() as connection:
        succeeded = await connection.fetchval("SELECT count(*) FROM task WHERE state = 'succeeded'")
        detections = await connection.fetchval("SELECT count(*) FROM detection")
    return succeeded, detections


async def test_runners_killed_in_the_middle_lose_nothing(settings: Settings) -> None:
    """Runners are killed with -9 while hundreds of tasks flow; each task succeeds, with one result."""
    async with AsyncExitStack() as stack:
        system = await stack.enter_async_context(opened(settings))
        await stack.enter_async_context(daemon(settings, "dispatcher"))
        await wait_until(system.queue.is_open, "the gate open", 30)
        await publish(
            system.ledger, DEFAULT_TENANT, "words", [Word("secret", "leak", 3)], name="W", is_default=True, by="test"
        )
        total = 3000
        for start in range(0, total, 500):
            await system.submit(*(new_text(n % 20, f"a secret {n}") for n in range(start, start + 500)))
        for limit in (300, 900):
            victim = await stack.enter_async_context(daemon(settings, "runner", "--lane", "text"))

            async def enough(limit: int = limit) -> bool:
                return (await count_results(system))[0] >= limit

            await wait_until(enough, f"{limit} results", 30)
            await victim.kill()
        await stack.enter_async_context(daemon(settings, "runner", "--lane", "text"))

        async def everything() -> bool:
            return (await count_results(system))[0] == total

        await wait_until(everything, "every task succeeded", 60)
        assert await count_results(system) == (total, total)
        await system.wait_until_at_rest()


@pytest.mark.ocr
async def test_a_paused_runner_wakes_up_fenced(settings: Settings) -> None:
    """A runner paused for longer than its lease cannot write when it wakes: the task was given to another."""
    async with AsyncExitStack() as stack:
        system = await stack.enter_async_context(opened(settings))
        await stack.enter_async_context(daemon(settings, "dispatcher"))
        await wait_until(system.queue.is_open, "the gate open", 30)
        await publish(system.ledger, DEFAULT_TENANT, "demo", DEMO_WORDS, name="Demo", is_default=True, by="test")
        zombie = await stack.enter_async_context(daemon(settings, "runner", "--lane", "ocr"))
        await zombie.wait_for("started", 60)
        exhibit = max(images(), key=lambda exhibit: len(exhibit.data))
        task = await submit(system, exhibit)
        await system.wait_for(task.id, TaskState.RUNNING)
        zombie.process.send_signal(signal.SIGSTOP)
        await stack.enter_async_context(daemon(settings, "runner", "--lane", "ocr"))
        view = await system.wait_for(task.id, TaskState.SUCCEEDED, 60)
        assert (view.task.fence, view.task.attempts) == (2, 1)
        zombie.process.send_signal(signal.SIGCONT)
        refusals = ("lease lost, nothing written", "write fenced off")
        await wait_until(
            lambda: any(words in zombie.output for words in refusals), lambda: f"a refusal in {zombie.output}", 30
        )
        assert (await count_results(system)) == (1, 1)
        assert len((await system.view(task.id)).hits) == len(exhibit.planted)


@pytest.mark.ocr
async def test_sigterm_gives_an_unfinished_image_back(settings: Settings) -> None:
    """A runner that is told to stop gives back what it cannot finish, without spending an attempt, and exits with 0."""
    hasty = settings.model_copy(update={"runner": settings.runner.model_copy(update={"grace_seconds": 0.0})})
    async with AsyncExitStack() as stack:
        system = await stack.enter_async_context(opened(settings))
        dispatcher = await stack.enter_async_context(daemon(settings, "dispatcher"))
        await wait_until(system.queue.is_open, "the gate open", 30)
        runner = await stack.enter_async_context(daemon(hasty, "runner", "--lane", "ocr"))
        await runner.wait_for("started", 60)
        task = await submit(system, max(images(), key=lambda exhibit: len(exhibit.data)))
        await system.wait_for(task.id, TaskState.RUNNING)
        runner.process.send_signal(signal.SIGTERM)
        assert await runner.ended() == 0
        view = await system.wait_for(task.id, TaskState.QUEUED)
        assert (view.task.fence, view.task.attempts, view.task.runner) == (1, 0, None)
        level = await system.queue.level(settings.lanes)
        assert (level["total_pending"], level["outstanding:ocr"]) == (1, 0)
        dispatcher.process.send_signal(signal.SIGTERM)
        assert await dispatcher.ended() == 0
