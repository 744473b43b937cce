"""Serves one lane: woken by new work, a completion or a runner, it hands out what there is room for."""

from __future__ import annotations

from collections.abc import Callable

from detectsched.clock import monotonic
from detectsched.dispatcher.capacity import Capacity, capacity_of
from detectsched.lifecycle import Loop
from detectsched.queueing.queue import Queue, Turns
from detectsched.settings import SchedulerSettings
from detectsched.telemetry import get_logger

log = get_logger(__name__)


class Allocator(Loop):
    """Calls dispatch.lua for one lane until its room or its work is used up.

    ``on_expired`` is told when a task's time to live was found to have passed, so that it is settled at once.
    """

    pause_is_elsewhere = True

    def __init__(self, queue: Queue, lane: str, settings: SchedulerSettings, *, on_expired: Callable[[], None]) -> None:
        super().__init__(settings.safety_tick_seconds)
        self._queue = queue
        self._lane = lane
        self._on_expired = on_expired
        self._turns = Turns(
            batch=settings.batch_size,
            min_batch=settings.min_batch_size,
            starvation_seconds=settings.starvation_hint_seconds,
            order=settings.order.value,
        )
        self._capacity = Capacity(0, ())
        self._epoch = -1
        self._read_at = 0.0

    @property
    def name(self) -> str:
        """Allocator and its lane."""
        return f"allocator:{self._lane}"

    async def run_once(self) -> int:
        """Dispatch what there is room for; return how many tasks were sent."""
        await self._read_capacity()
        sent = 0
        while True:
            done = await self._queue.scripts.dispatch(
                self._lane, capacity=self._capacity.slots, live=self._capacity.consumers, turns=self._turns
            )
            sent += done.sent
            if done.expired:
                self._on_expired()
            if not done.more:
                break
        if sent:
            log.debug("dispatched", lane=self._lane, tasks=sent)
        return sent

    async def pause(self) -> None:
        """Wait for the lane's wake-up token, at most for the safety tick: a token can die with its reader."""
        await self._queue.wait_for_work(self._lane, timeout_seconds=self._interval)

    async def _read_capacity(self) -> None:
        # The epoch tells at once when a runner comes, goes or changes; the age finds those that died silently.
        epoch, now = await self._queue.registry.epoch(), monotonic()
        if epoch != self._epoch or now - self._read_at > 1.0:
            self._capacity = capacity_of(self._lane, await self._queue.registry.workers())
            self._epoch, self._read_at = epoch, now
