"""Long-polls: whoever waits for a task's end is woken by Redis' hint, and by a look into PostgreSQL once a second.

Pub/sub loses messages, and tasks may end without one (Redis down, an expiry found by a sweep), so the hint only makes
it fast and the look makes it true. One subscriber and one query serve all waiters of a process.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from typing import Final
from uuid import UUID

from detectsched.clock import monotonic
from detectsched.db.connection import Ledger
from detectsched.db.reads import ended_among
from detectsched.lifecycle import Loop
from detectsched.queueing.queue import Queue

_LOOK_SECONDS: Final = 1.0


class Waiters:
    """Who waits for which task; ``stopping`` sends all of them home."""

    def __init__(self, stopping: asyncio.Event) -> None:
        self._stopping = stopping
        self._by_task: dict[UUID, set[asyncio.Event]] = {}

    def waited_for(self) -> list[UUID]:
        """Return the tasks that somebody waits for."""
        return list(self._by_task)

    def wake(self, task_id: UUID) -> None:
        """Make everybody who waits for a task look at it."""
        for event in self._by_task.get(task_id, ()):
            event.set()

    def wake_all(self) -> None:
        """Make everybody look."""
        for task_id in self._by_task:
            self.wake(task_id)

    async def wait(self, task_id: UUID, has_ended: Callable[[], Awaitable[bool]], *, seconds: float) -> None:
        """Return when the task has ended, the time is over, or the server stops.

        ``has_ended`` is asked only after the waiter is listed, so that no end falls between question and waiting.
        """
        deadline = monotonic() + seconds
        with self._listed(task_id) as event:
            while not self._stopping.is_set():
                event.clear()
                if await has_ended():
                    return
                remaining = deadline - monotonic()
                if remaining <= 0 or self._stopping.is_set():
                    return
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(event.wait(), remaining)

    @contextlib.contextmanager
    def _listed(self, task_id: UUID) -> Iterator[asyncio.Event]:
        event = asyncio.Event()
        self._by_task.setdefault(task_id, set()).add(event)
        try:
            yield event
        finally:
            events = self._by_task[task_id]
            events.discard(event)
            if not events:
                del self._by_task[task_id]


class EndListener(Loop):
    """Wakes waiters when Redis says that their task is done."""

    def __init__(self, queue: Queue, waiters: Waiters) -> None:
        super().__init__(_LOOK_SECONDS)
        self._queue = queue
        self._waiters = waiters

    async def run_once(self) -> None:
        """Listen until Redis goes away."""
        async for task_id in self._queue.hints("done"):
            if task_id is not None:
                self._waiters.wake(task_id)

    async def interrupt(self, task: asyncio.Task[None]) -> None:
        """Break off listening."""
        task.cancel()


class EndLook(Loop):
    """Wakes waiters whose task has ended without a hint."""

    def __init__(self, ledger: Ledger, waiters: Waiters) -> None:
        super().__init__(_LOOK_SECONDS)
        self._ledger = ledger
        self._waiters = waiters

    async def run_once(self) -> int:
        """Look at all tasks that are waited for; return how many have ended."""
        waited_for = self._waiters.waited_for()
        if not waited_for:
            return 0
        ended = await ended_among(self._ledger, waited_for)
        for task_id in ended:
            self._waiters.wake(task_id)
        return len(ended)
