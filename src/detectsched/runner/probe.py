"""Measures how loaded this machine is, and how much of that is the doing of others.

A runner must not be pushed back by its own work, so what the runners of this host and their engine processes use is
subtracted. A limit of the container counts like the machine: at its quota of one core a container is at 100 %.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from detectsched.cgroup import Cgroups, MemoryLimit
from detectsched.clock import monotonic
from detectsched.runner.own import OwnProcesses, OwnUse

_LEAST_SECONDS: Final = 0.1
"""CPU time is counted in hundredths of a second: a shorter look tells nothing."""
_MACHINE: Final = Path("/")


@dataclass(frozen=True, slots=True)
class Load:
    """Percentages of the cores and the memory that this process may use, and bytes.

    Of the machine and the limited groups around this process, the one that is used most counts, and the least that is
    left. The ``foreign_`` figures leave out what the runners of this host use; ``own_pids`` are their processes.
    """

    cpu_percent: float
    memory_percent: float
    memory_total: int
    memory_available: int
    foreign_cpu_percent: float
    foreign_memory_percent: float
    own_pids: frozenset[int] = frozenset()


def wanted_by_others(used: float, own: OwnUse, cores: float) -> float:
    """Return the CPU seconds that others would have used without us, from what they ``used`` beside us.

    Where cores are contended everybody gets the same share of what he wants, so the share that our threads got tells
    what theirs wanted: two busy loops beside our two on two cores use one core's time and want two. Threads of ours
    beyond ``cores`` keep each other waiting; that is not laid to the others.

    Beside us others that want little are served first, so this overstates a load that leaves cores free.
    """
    could = min(own.ran + own.waited, max(cores, own.ran))
    return used * could / own.ran if own.ran > 0 else used


class Probe:
    """Each call measures since the last one."""

    def __init__(self, cgroups: Cgroups | None = None) -> None:
        self._cgroups = cgroups or Cgroups()
        self._own = OwnProcesses()
        # What this process's own engines have used so far is not the first measurement's.
        self._own.look({os.getpid()})
        self._used = _used_by_level(self._cgroups)
        self._at = monotonic()
        self._last: Load | None = None

    def measure(self, own_pids: Collection[int]) -> Load:
        """Return the load now; ``own_pids`` are the runners of this host, whose children count as theirs."""
        now = monotonic()
        elapsed = now - self._at
        if self._last is not None and elapsed < _LEAST_SECONDS:
            return self._last
        own = self._own.look(own_pids)
        before, self._used, self._at = self._used, _used_by_level(self._cgroups), now
        levels = [
            (cores * elapsed, seconds - before[level][1])
            for level, (cores, seconds) in self._used.items()
            if level in before
        ]
        self._last = _load(levels, own, _memory(self._cgroups))
        return self._last


def _load(levels: list[tuple[float, float]], own: OwnUse, memory: list[MemoryLimit]) -> Load:
    # No more than the tightest limit could we have used, however many threads wait behind it.
    most = min(capacity for capacity, _ in levels)
    others = ((wanted_by_others(max(0.0, used - own.seconds), own, most), capacity) for capacity, used in levels)
    return Load(
        cpu_percent=_percent(max(used / capacity for capacity, used in levels)),
        memory_percent=_percent(max(level.used / level.limit for level in memory)),
        memory_total=min(level.limit for level in memory),
        memory_available=max(0, min(level.limit - level.used for level in memory)),
        foreign_cpu_percent=_percent(max(wanted / capacity for wanted, capacity in others)),
        foreign_memory_percent=_percent(max((level.used - own.memory) / level.limit for level in memory)),
        own_pids=own.pids,
    )


def _percent(share: float) -> float:
    return 100 * min(1.0, max(0.0, share))


def _used_by_level(cgroups: Cgroups) -> dict[Path, tuple[float, float]]:
    """Return cores and CPU seconds used so far, of the machine's cores that we may run on and of each quota."""
    usable = psutil.Process().cpu_affinity() or []
    each = psutil.cpu_times(percpu=True)
    cores = [each[core] for core in usable if core < len(each)] or each
    # Linux counts a guest's time as the user's too, and what the hypervisor took away is not ours to use.
    busy = sum(sum(times[:8]) - times.idle - times.iowait for times in cores)
    return {_MACHINE: (float(len(cores)), busy)} | {
        limit.group: (limit.cores, limit.seconds) for limit in cgroups.cpu() if limit.cores < len(cores)
    }


def _memory(cgroups: Cgroups) -> list[MemoryLimit]:
    machine = psutil.virtual_memory()
    levels = [level for level in cgroups.memory() if 0 < level.limit < machine.total]
    return [MemoryLimit(machine.total, machine.total - machine.available), *levels]
