"""How many CPU threads one engine process may use."""

from __future__ import annotations

import math
import os
from typing import Final

from detectsched.cgroup import Cgroups

_MOST_BY_DEFAULT: Final = 4
"""The original's CPU setting; beyond four threads OCR of one image hardly gets faster."""


def engine_threads(wanted: int, slots: int) -> int:
    """Return ``wanted``, or for 0 this process's share: the usable cores divided by the slots, 1 to 4.

    Left to themselves, engines start one thread for each core of the host, however few the container may use.
    """
    return wanted or max(1, min(_MOST_BY_DEFAULT, usable_cores() // slots))


def usable_cores(cgroups: Cgroups | None = None) -> int:
    """Return the cores this process may run on: its CPU affinity, cut to its control groups' quotas (at least 1)."""
    quotas = (cgroups or Cgroups()).quotas()
    return max(1, min([len(os.sched_getaffinity(0)), *map(math.ceil, quotas)]))
