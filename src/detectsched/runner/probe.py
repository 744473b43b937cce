"""Measures this machine's load, and how much of it is our own doing.

A runner must not be pushed back by its own work, so what the runners of this host and their engine processes use is
subtracted: what remains is foreign load.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from detectsched.clock import monotonic

_CGROUP_FILES: Final = (
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"), Path("/sys/fs/cgroup/memory/memory.usage_in_bytes")),
)


@dataclass(frozen=True, slots=True)
class Load:
    """The load of a machine: percentages of all cores and of all memory (the cgroup's, if it has a limit), bytes.

    The ``foreign_`` figures leave out what the runners of this host use themselves.
    """

    cpu_percent: float
    memory_percent: float
    memory_total: int
    memory_available: int
    foreign_cpu_percent: float
    foreign_memory_percent: float


class Probe:
    """Each call measures since the last one."""

    def __init__(self) -> None:
        self._cores = psutil.cpu_count() or 1
        self._seconds: dict[int, float] = {}
        self._at = monotonic()
        psutil.cpu_percent(interval=None)

    def measure(self, own_pids: Collection[int]) -> Load:
        """Return the load now; ``own_pids`` are the runners of this host, whose children count as theirs."""
        cpu = psutil.cpu_percent(interval=None)
        seconds, resident = _usage_of_trees(own_pids)
        now = monotonic()
        spent = sum(value - self._seconds.get(pid, value) for pid, value in seconds.items())
        own_cpu = 100 * spent / (max(now - self._at, 0.001) * self._cores)
        self._seconds, self._at = seconds, now
        total, available = _memory()
        used = total - available
        return Load(
            cpu_percent=cpu,
            memory_percent=100 * used / total,
            memory_total=total,
            memory_available=available,
            foreign_cpu_percent=max(0.0, cpu - own_cpu),
            foreign_memory_percent=100 * max(0, used - resident) / total,
        )


def _usage_of_trees(pids: Collection[int]) -> tuple[dict[int, float], int]:
    """Return CPU seconds by pid, and resident bytes in all, of these processes and their descendants."""
    seconds: dict[int, float] = {}
    resident = 0
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            root = psutil.Process(pid)
            for process in (root, *root.children(recursive=True)):
                with contextlib.suppress(psutil.Error):
                    if process.pid not in seconds:
                        times = process.cpu_times()
                        seconds[process.pid] = times.user + times.system
                        resident += process.memory_info().rss
    return seconds, resident


def _memory() -> tuple[int, int]:
    """Return total and available bytes: the cgroup's where it has a limit below the machine's."""
    machine = psutil.virtual_memory()
    for limit_file, used_file in _CGROUP_FILES:
        with contextlib.suppress(OSError, ValueError):
            limit = int(limit_file.read_text())
            if 0 < limit < machine.total:
                return limit, max(0, min(limit - int(used_file.read_text()), machine.available))
    return machine.total, machine.available
