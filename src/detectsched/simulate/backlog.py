"""The engine's own account of what waits, independent of the scheduler, so that it can be held against it."""

from __future__ import annotations

from collections.abc import Sequence

from detectsched.simulate.arrivals import Tasks
from detectsched.task import QueueKind


class Backlog:
    """Counts per lane what waits, and what of it could be started if there were a slot.

    ``eligible`` leaves out what is behind a queue's limit in flight. Queues with a rate are not in it at all: when they
    may go on is for the scripts to say.
    """

    def __init__(self, tasks: Tasks, lanes: Sequence[str]) -> None:
        devices = tasks.devices
        self._device = tasks.device.tolist()
        self._lane = [device.lane for device in devices]
        self._limit = [
            0 if device.entitlement.rate else _limit(device.queue.kind, device.entitlement.limit) for device in devices
        ]
        self._rated = [device.entitlement.rate > 0 for device in devices]
        self._waits = [0] * len(devices)
        self._runs = [0] * len(devices)
        self.waiting = dict.fromkeys(lanes, 0)
        self.eligible = dict.fromkeys(lanes, 0)

    def arrive(self, task: int) -> None:
        """Note that a task waits."""
        self._change(task, waits=1, runs=0)

    def start(self, task: int) -> None:
        """Note that a waiting task runs."""
        self._change(task, waits=-1, runs=1)

    def leave(self, task: int) -> None:
        """Note that a running task is done."""
        self._change(task, waits=0, runs=-1)

    def come_back(self, task: int) -> None:
        """Note that a task whose runner died waits again."""
        self._change(task, waits=1, runs=-1)

    def drop(self, task: int) -> None:
        """Note that a waiting task has ended without being run."""
        self._change(task, waits=-1, runs=0)

    def _change(self, task: int, *, waits: int, runs: int) -> None:
        device = self._device[task]
        lane = self._lane[device]
        before = self._startable(device)
        self._waits[device] += waits
        self._runs[device] += runs
        self.waiting[lane] += waits
        self.eligible[lane] += self._startable(device) - before

    def _startable(self, device: int) -> int:
        if self._rated[device]:
            return 0
        limit = self._limit[device]
        return self._waits[device] if limit == 0 else max(0, min(self._waits[device], limit - self._runs[device]))


def _limit(kind: QueueKind, limit: int) -> int:
    return 1 if kind is QueueKind.OBJECT else limit
