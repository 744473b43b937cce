"""The limits of the control groups that this process is in, version 1 and 2: a container's memory and CPU quota."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_ROOT: Final = Path("/sys/fs/cgroup")
_MEMBERSHIP: Final = Path("/proc/self/cgroup")


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """Bytes that a group may use, and uses; cached files that nobody uses are left out: the kernel drops them first."""

    limit: int
    used: int


@dataclass(frozen=True, slots=True)
class CpuLimit:
    """The cores' worth of time that a group may use, and the CPU seconds it has used since it was made."""

    group: Path
    cores: float
    seconds: float


class Cgroups:
    """Reads the groups of this process and their parents, for each of them may be limited."""

    def __init__(self, root: Path = _ROOT, membership: Path = _MEMBERSHIP) -> None:
        self._root = root
        self._membership = membership

    def memory(self) -> list[MemoryLimit]:
        """Return the limits on memory; none where there is no limit or no such file."""
        found: list[MemoryLimit] = []
        for group in self._groups("memory"):
            # A limit that is not set is the word max (version 2) or an absurd number (version 1).
            with contextlib.suppress(OSError, ValueError):
                found.append(_memory_of(group))
        return found

    def cpu(self) -> list[CpuLimit]:
        """Return the quotas on CPU time."""
        found: list[CpuLimit] = []
        for group in self._groups("cpu"):
            with contextlib.suppress(OSError, ValueError):
                found.append(self._cpu_of(group))
        return found

    def quotas(self) -> list[float]:
        """Return the cores' worth of time of each quota; none where there is no quota."""
        found: list[float] = []
        for group in self._groups("cpu"):
            with contextlib.suppress(OSError, ValueError):
                found.append(_quota_of(group))
        return found

    def _groups(self, controller: str) -> Iterator[Path]:
        """Yield this process's group and its parents, innermost first."""
        base, inside = self._root, "/"
        with contextlib.suppress(OSError, ValueError):
            for line in self._membership.read_text().splitlines():
                _, controllers, path = line.split(":", 2)
                if controller in controllers.split(","):
                    base, inside = self._root / controller, path
                    break
                if not controllers:
                    inside = path
        # A container without a namespace of its own for groups is told a path of the host, and sees only its own group.
        group = base / inside.strip("/")
        if ".." in group.parts or not group.is_dir():
            group = base
        yield group
        while group != base:
            group = group.parent
            yield group

    def _cpu_of(self, group: Path) -> CpuLimit:
        if (group / "cpu.max").exists():
            seconds = _value(group / "cpu.stat", "usage_usec") / 1e6
        else:
            counted = self._root / "cpuacct" / group.relative_to(self._root / "cpu")
            seconds = int((counted / "cpuacct.usage").read_text()) / 1e9
        return CpuLimit(group, _quota_of(group), seconds)


def _quota_of(group: Path) -> float:
    """Return the cores' worth of time of a group; raise ValueError where that is unlimited."""
    if (group / "cpu.max").exists():
        quota, period = (group / "cpu.max").read_text().split()
    else:
        quota, period = (group / "cpu.cfs_quota_us").read_text(), (group / "cpu.cfs_period_us").read_text()
    if int(quota) <= 0:
        raise ValueError("no quota")
    return int(quota) / int(period)


def _memory_of(group: Path) -> MemoryLimit:
    if (group / "memory.max").exists():
        limit, used, cached = "memory.max", "memory.current", "inactive_file"
    else:
        limit, used, cached = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
    most = int((group / limit).read_text())
    in_use = int((group / used).read_text())
    with contextlib.suppress(OSError):
        in_use -= _value(group / "memory.stat", cached)
    return MemoryLimit(most, max(0, in_use))


def _value(file: Path, name: str) -> int:
    """Return a named number of a file with one on each line; 0 if it is not there."""
    for line in file.read_text().splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(value)
    return 0
