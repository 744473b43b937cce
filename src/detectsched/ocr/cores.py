"""How many CPU threads one engine process may use."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Final

_MOST_BY_DEFAULT: Final = 4
"""The original's CPU setting; beyond four threads OCR of one image hardly gets faster."""


def engine_threads(wanted: int, slots: int) -> int:
    """Return ``wanted``, or for 0 this process's share: the usable cores divided by the slots, 1 to 4.

    Left to themselves, engines start one thread for each core of the host, however few the container may use.
    """
    return wanted or max(1, min(_MOST_BY_DEFAULT, usable_cores() // slots))


def usable_cores(cgroup_root: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the cores this process may run on: its CPU affinity, cut to the cgroup's quota (at least 1)."""
    cores = len(os.sched_getaffinity(0))
    quota = _cgroup_quota(cgroup_root)
    return cores if quota is None else max(1, min(cores, math.ceil(quota)))


def _cgroup_quota(root: Path) -> float | None:
    """Return the cores' worth of time the container is allowed, by cgroup version 2 or 1; None: no limit."""
    try:
        quota, period = (root / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            quota = (root / "cpu/cpu.cfs_quota_us").read_text().strip()
            period = (root / "cpu/cpu.cfs_period_us").read_text().strip()
        except OSError:
            return None
    return None if quota in {"max", "-1"} else int(quota) / int(period)
