"""The original's formula as it was written, in Python: what the product would do had it been built to the letter.

score = min(seconds since the oldest task of the device arrived, MAX_WAIT) × WEIGHT × the device's own weight. The
highest score is served for a batch of ten *tasks*, or for one while the next candidate has waited for the starvation
hint, and then is not chosen again at once; equal scores go by name, the last first (ZREVRANGE). The original has one
weight for all; a weight per device is put where it would naturally stand. Here the tasks of a device are taken in the
order in which they came, so that the formula alone is compared. There is one level only: it knows no tenants.
"""

from __future__ import annotations

import asyncio
from collections import deque

import numpy as np

from detectsched.settings import SchedulerSettings
from detectsched.simulate.arrivals import Tasks
from detectsched.simulate.scheduler import Decisions, News, VirtualClock
from detectsched.task import QueueKind


class FormulaScheduler:
    """Serves the highest score, computed anew at every choice. Rates and back-offs are not modelled."""

    def __init__(self, settings: SchedulerSettings, tasks: Tasks, clock: VirtualClock) -> None:
        self._settings = settings
        self._tasks = tasks
        self._clock = clock
        self._device = tasks.device.tolist()
        devices = tasks.devices
        self._queues: list[deque[int]] = [deque() for _ in devices]
        self._running = [0] * len(devices)
        self._limit = [1 if one.queue.kind is QueueKind.OBJECT else one.entitlement.limit for one in devices]
        self._weight = np.array([one.entitlement.weight for one in devices])
        self._rank = np.argsort(np.argsort([str(one.queue) for one in devices]))
        self._of_lane = {
            lane: np.array([one.lane == lane for one in devices]) for lane in {one.lane for one in devices}
        }
        # Arrival of each device's oldest waiting task; infinite for devices that cannot be served now.
        self._oldest = np.full(len(devices), np.inf)
        self._excluded: dict[str, int] = {}

    async def step(self, news: News) -> Decisions:
        """Take in what has happened, and take turns until nothing is free or nothing waits."""
        # Nothing here waits for anything; runs of other policies share the event loop.
        await asyncio.sleep(0)
        for task in news.arrived:
            self._queues[self._device[task]].append(task)
            self._note(self._device[task])
        for task, _ in news.finished:
            self._running[self._device[task]] -= 1
            self._note(self._device[task])
        for task in reversed(news.lost):
            self._running[self._device[task]] -= 1
            self._queues[self._device[task]].appendleft(task)
            self._note(self._device[task])
        decisions = Decisions()
        for lane, there in news.lanes.items():
            places = [runner for runner in there.runners for _ in range(runner.free(lane))]
            while places and (turn := self._turn(lane, len(places))):
                decisions.started += [(task, places.pop()) for task in turn]
        return decisions

    def _note(self, device: int) -> None:
        queue = self._queues[device]
        servable = queue and self._free(device) > 0
        self._oldest[device] = self._tasks.arrival[queue[0]] if servable else np.inf

    def _free(self, device: int) -> int:
        limit = self._limit[device]
        return limit - self._running[device] if limit else len(self._tasks)

    def _turn(self, lane: str, room: int) -> list[int]:
        best = self._best(lane, None)
        if best is None:
            return []
        chosen = best
        if best == self._excluded.pop(lane, None):
            second = self._best(lane, best)
            chosen = best if second is None else second
        candidate = self._best(lane, chosen)
        hint = self._settings.starvation_hint_seconds
        starving = candidate is not None and self._clock.seconds - self._oldest[candidate] >= hint
        if starving:
            self._excluded[lane] = chosen
        batch = self._settings.min_batch_size if starving else self._settings.batch_size
        queue = self._queues[chosen]
        turn = [queue.popleft() for _ in range(min(batch, room, len(queue), self._free(chosen)))]
        self._running[chosen] += len(turn)
        self._note(chosen)
        return turn

    def _best(self, lane: str, excluded: int | None) -> int | None:
        """Return the device of the highest score in a lane, other than the excluded one."""
        servable = self._of_lane[lane] & np.isfinite(self._oldest)
        if excluded is not None:
            servable[excluded] = False
        there = np.flatnonzero(servable)
        if len(there) == 0:
            return None
        waited = np.minimum(self._clock.seconds - self._oldest[there], self._settings.aging_max_wait_seconds)
        score = waited * self._settings.aging_weight * self._weight[there]
        highest = there[score == score.max()]
        return int(highest[np.argmax(self._rank[highest])])

    async def close(self) -> None:
        """Hold nothing."""
