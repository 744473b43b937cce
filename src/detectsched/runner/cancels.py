"""Hears which running tasks were cancelled; a hint only: the next renewal says so too."""

from __future__ import annotations

import asyncio

from detectsched.lifecycle import Loop
from detectsched.queueing.queue import Queue
from detectsched.runner.desk import Desk
from detectsched.runner.outcome import Stop


class Cancels(Loop):
    """Listens until it is stopped."""

    def __init__(self, queue: Queue, desk: Desk) -> None:
        super().__init__(0.0)
        self._queue = queue
        self._desk = desk

    async def run_once(self) -> None:
        """Listen until the connection breaks or the loop is stopped."""
        async for task_id in self._queue.hints("cancel"):
            if task_id is not None:
                self._desk.interrupt(task_id, Stop.CANCEL)

    async def interrupt(self, task: asyncio.Task[None]) -> None:
        """Stop listening: a hint that is lost costs nothing."""
        task.cancel()

    async def pause(self) -> None:
        """Do not wait: listening blocks by itself."""
