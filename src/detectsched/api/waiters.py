"""Long-polls: whoever waits for a task's end is woken by Redis' hint, and by a look into PostgreSQL once a second.

Pub/sub loses messages, and tasks may end without one (Redis down, an expiry found by a sweep), so the hint only makes
it fast and the look makes it true. One subscriber and one query serve all waiters of a process.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, Generic, TypeVar
from uuid import UUID

from detectsched.clock import monotonic
from detectsched.db.commands import Addressee, commanded_among
from detectsched.db.connection import Ledger
from detectsched.db.reads import ended_among
from detectsched.lifecycle import Loop
from detectsched.queueing.queue import Queue

_LOOK_SECONDS: Final = 1.0

Key = TypeVar("Key")


class Waiters(Generic[Key]):
    """Who waits for what (a task's end, a device's commands); ``stopping`` sends all of them home."""

    def __init__(self, stopping: asyncio.Event) -> None:
        self._stopping = stopping
        self._by_key: dict[Key, set[asyncio.Event]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._by_key.values()))

    def waited_for(self) -> list[Key]:
        """Return what somebody waits for."""
        return list(self._by_key)

    def wake(self, key: Key) -> None:
        """Make everybody who waits for something look at it."""
        for event in self._by_key.get(key, ()):
            event.set()

    def wake_all(self) -> None:
        """Make everybody look."""
        for key in self._by_key:
            self.wake(key)

    async def wait(self, key: Key, is_there: Callable[[], Awaitable[bool]], *, seconds: float) -> None:
        """Return when it is there, the time is over, or the server stops.

        ``is_there`` is asked only after the waiter is listed, so that nothing falls between question and waiting.
        """
        deadline = monotonic() + seconds
        with self._listed(key) as event:
            while not self._stopping.is_set():
                event.clear()
                if await is_there():
                    return
                remaining = deadline - monotonic()
                if remaining <= 0 or self._stopping.is_set():
                    return
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(event.wait(), remaining)

    @contextlib.contextmanager
    def _listed(self, key: Key) -> Iterator[asyncio.Event]:
        event = asyncio.Event()
        self._by_key.setdefault(key, set()).add(event)
        try:
            yield event
        finally:
            events = self._by_key[key]
            events.discard(event)
            if not events:
                del self._by_key[key]


class EndListener(Loop):
    """Wakes waiters when Redis says that their task is done."""

    def __init__(self, queue: Queue, waiters: Waiters[UUID]) -> None:
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

    def __init__(self, ledger: Ledger, waiters: Waiters[UUID]) -> None:
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


class CommandLook(Loop):
    """Wakes devices and objects whose command came without a hint."""

    def __init__(self, ledger: Ledger, waiters: Waiters[Addressee]) -> None:
        super().__init__(_LOOK_SECONDS)
        self._ledger = ledger
        self._waiters = waiters

    async def run_once(self) -> int:
        """Look at all that are waited for; return for how many there is something."""
        waited_for = self._waiters.waited_for()
        if not waited_for:
            return 0
        commanded = await commanded_among(self._ledger, waited_for)
        for addressee in commanded:
            self._waiters.wake(addressee)
        return len(commanded)


def hear_commands(waiters: Waiters[Addressee]) -> Callable[[str | None], None]:
    """Return what is called with PostgreSQL's hints."""

    def hear(subject: str | None) -> None:
        # None: hints may have been missed; the look finds what they were about.
        if subject is not None:
            waiters.wake(Addressee.of_subject(subject))

    return hear
