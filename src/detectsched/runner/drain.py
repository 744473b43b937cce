"""Learns whether this runner is being drained: an operator wants it to finish what it has and take nothing new."""

from __future__ import annotations

from typing import Final

from detectsched.lifecycle import Loop
from detectsched.queueing.queue import Queue
from detectsched.runner.health import Health

_LOOK_SECONDS: Final = 2.0


class Drain(Loop):
    """Drained by its name, so that a restart does not end the drain."""

    def __init__(self, queue: Queue, runner_name: str, health: Health) -> None:
        super().__init__(_LOOK_SECONDS)
        self._queue = queue
        self._what = f"runner:{runner_name}"
        self._health = health

    async def run_once(self) -> bool:
        """Look once; return whether it is drained."""
        drained = self._what in await self._queue.paused()
        self._health.set_drained(drained)
        return drained
