"""Serves one lane: woken by new work, a completion or a runner, it hands out what there is room for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from detectsched import failpoints
from detectsched.clock import monotonic
from detectsched.lifecycle import Loop
from detectsched.queueing.queue import Capacity, Queue, Turns, capacity_of
from detectsched.settings import NoRunner, SchedulerSettings
from detectsched.telemetry import get_logger

log = get_logger(__name__)

_BATCH: Final = 200
_RECORDS_BELIEVED_SECONDS: Final = 1.0


class Allocator(Loop):
    """Calls dispatch.lua for one lane until its room or its work is used up.

    While the lane has no runner at all, its queues back off (or their heads are given up); when one comes, that ends.
    ``on_decided`` is told when a script has decided something for good, so that it is settled at once.
    """

    pause_is_elsewhere = True

    def __init__(self, queue: Queue, lane: str, settings: SchedulerSettings, *, on_decided: Callable[[], None]) -> None:
        super().__init__(settings.safety_tick_seconds)
        self._queue = queue
        self._lane = lane
        self._settings = settings
        self._on_decided = on_decided
        self._turns = Turns.of(settings)
        self._capacity = Capacity()
        self._had_runner: bool | None = None
        self._epoch = -1
        self._read_at = 0.0

    @property
    def name(self) -> str:
        """Allocator and its lane."""
        return f"allocator:{self._lane}"

    async def run_once(self) -> int:
        """Dispatch what there is room for; return how many tasks were sent."""
        await self._read_capacity()
        if not self._capacity.has_runner:
            await self._defer()
            return 0
        sent = 0
        while True:
            failpoints.hit("dispatch.before_move")
            done = await self._queue.scripts.dispatch(
                self._lane, capacity=self._capacity.slots, live=self._capacity.consumers, turns=self._turns
            )
            if done.sent:
                failpoints.hit("dispatch.after_move")
            sent += done.sent
            if done.expired:
                self._on_decided()
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
        if epoch == self._epoch and now - self._read_at <= _RECORDS_BELIEVED_SECONDS:
            return
        self._capacity = capacity_of(self._lane, await self._queue.registry.workers(), self._settings)
        self._epoch, self._read_at = epoch, now
        if self._lane in self._settings.gpu_lanes:
            await self._queue.admit_cpu(self._lane, admitted=self._capacity.cpu_admitted)
        if self._capacity.has_runner and not self._had_runner:
            await self._resume()
        if self._had_runner is not None and self._capacity.has_runner is not self._had_runner:
            log.warning("lane has a runner" if self._capacity.has_runner else "lane has no runner", lane=self._lane)
        self._had_runner = self._capacity.has_runner

    async def _defer(self) -> None:
        policy = "dead_letter" if self._settings.no_runner is NoRunner.DEAD_LETTER else "defer"
        while True:
            done = await self._queue.scripts.defer(
                self._lane, policy=policy, max_defers=self._settings.max_defers, limit=_BATCH
            )
            if done.given_up:
                self._on_decided()
            if done.queues or done.given_up:
                log.info("no runner", lane=self._lane, queues_deferred=done.queues, tasks_given_up=done.given_up)
            if not done.more:
                return

    async def _resume(self) -> None:
        more = True
        while more:
            _, more = await self._queue.scripts.resume(self._lane, limit=_BATCH)
