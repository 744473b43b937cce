"""Who a runner is."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from uuid import uuid4


@dataclass(frozen=True, slots=True)
class Identity:
    """``boot`` makes a restarted process with the same pid somebody else."""

    hostname: str
    pid: int
    boot: str

    @classmethod
    def of_this_process(cls) -> Identity:
        """Return a new identity."""
        return cls(socket.gethostname(), os.getpid(), uuid4().hex[:8])

    @property
    def consumer(self) -> str:
        """The name under which deliveries are pending."""
        return f"{self.hostname}:{self.pid}:{self.boot}"
