"""A container whose memory others use as a test says: the files of a control group, as the kernel would show them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import psutil

from detectsched.cgroup import Cgroups
from detectsched.runner.probe import Probe

_SHARE_OF_MACHINE: Final = 0.9
"""A limit counts only below the machine's memory; well above what the tests themselves take."""


class Container:
    """Starts with memory to spare."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._limit = round(psutil.virtual_memory().total * _SHARE_OF_MACHINE)
        (directory / "memory.max").write_text(str(self._limit))
        self.fill(0.3)

    def fill(self, share: float) -> None:
        """Use this share of the limit."""
        fresh = self._directory / "new"
        fresh.write_text(str(round(self._limit * share)))
        fresh.replace(self._directory / "memory.current")

    def probe(self) -> Probe:
        """Return a probe that believes to be in here."""
        return Probe(Cgroups(self._directory, self._directory / "none"))
