"""What the runners of this host and their engine processes use themselves, so that it is not held against them."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import psutil


@dataclass(frozen=True, slots=True)
class OwnUse:
    """Since the look before: CPU ``seconds``, and seconds in which own threads ``ran`` and ``waited`` for a core.

    ``waited`` stays 0 where the kernel does not tell (no ``/proc/PID/task/TID/schedstat``). ``memory`` is what the
    processes have for themselves now, in bytes: pages of files, which they share, count as free anyway.
    """

    seconds: float
    ran: float
    waited: float
    memory: int
    pids: frozenset[int]


class OwnProcesses:
    """Looks at trees of processes; each look measures since the one before."""

    def __init__(self) -> None:
        self._seconds: dict[psutil.Process, float] = {}
        self._threads: dict[str, tuple[int, int]] = {}

    def look(self, roots: Collection[int]) -> OwnUse:
        """Measure the processes ``roots`` and their descendants."""
        before, self._seconds = self._seconds, {}
        pids: set[int] = set()
        memory = 0
        for pid in roots:
            # Gone meanwhile, or a runner of another user whom we may not look at.
            with contextlib.suppress(psutil.Error):
                root = psutil.Process(pid)
                if root.pid not in pids:
                    members, seconds, private = _tree(root)
                    self._seconds[root] = seconds
                    pids |= members
                    memory += private
        spent = sum(max(0.0, now - before.get(root, now)) for root, now in self._seconds.items())
        ran, waited = self._threads_of(pids)
        return OwnUse(spent, ran, waited, memory, frozenset(pids))

    def _threads_of(self, pids: Collection[int]) -> tuple[float, float]:
        before, self._threads = self._threads, _schedule_of(pids)
        ran = waited = 0
        for thread, (runs, waits) in self._threads.items():
            ran_before, waited_before = before.get(thread, (runs, waits))
            ran += max(0, runs - ran_before)
            waited += max(0, waits - waited_before)
        return ran / 1e9, waited / 1e9


def _tree(root: psutil.Process) -> tuple[set[int], float, int]:
    """Return the pids of a tree, the CPU seconds it has used so far, and its private memory.

    The seconds of a process that has ended are those of its parent's ``children``: an engine that was replaced between
    two looks is not forgotten.
    """
    pids: set[int] = set()
    seconds, memory = 0.0, 0
    waiting = [root]
    while waiting:
        process = waiting.pop()
        with contextlib.suppress(psutil.Error), process.oneshot():
            seconds += sum(process.cpu_times()[:4])  # user, system, and both of the children that have ended
            resident = process.memory_info()
            memory += max(0, resident.rss - resident.shared)
            pids.add(process.pid)
            waiting += _children(process)
    return pids, seconds, memory


def _children(process: psutil.Process) -> list[psutil.Process]:
    found: list[psutil.Process] = []
    try:
        for children in Path(f"/proc/{process.pid}/task").glob("*/children"):
            for pid in children.read_text().split():
                with contextlib.suppress(psutil.Error):
                    found.append(psutil.Process(int(pid)))
    except OSError:
        return []
    return found


def _schedule_of(pids: Collection[int]) -> dict[str, tuple[int, int]]:
    """Return nanoseconds run and waited of every thread (Linux, Documentation/scheduler/sched-stats.rst)."""
    found: dict[str, tuple[int, int]] = {}
    for pid in pids:
        with contextlib.suppress(OSError, ValueError):
            for file in Path(f"/proc/{pid}/task").glob("*/schedstat"):
                ran, waited, _ = file.read_text().split()
                found[str(file)] = int(ran), int(waited)
    return found
