"""Where faults are played: the system, chance, and the journal that notes when each began and was healed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from chaos.cluster import Cluster, Links
from chaos.journal import Fault, Journal
from chaos.processes import Daemon


@dataclass
class Stage:
    """``lease`` and ``sweep`` are those of the system, in seconds."""

    system: Cluster
    chance: random.Random
    journal: Journal
    lease: float
    sweep: float

    @asynccontextmanager
    async def fault(self, name: str, target: str = "", *, blinds: bool = False) -> AsyncIterator[None]:
        """Note that a fault begins; when the block ends, that it was healed."""
        self.journal.write(Fault(self.journal.now(), name, "begin", target, blinds))
        try:
            yield
        finally:
            self.journal.write(Fault(self.journal.now(), name, "end", target, blinds))

    def one(self, kind: str) -> Daemon:
        """Choose a daemon of a kind that runs."""
        return self.chance.choice([daemon for daemon in self.system.of(kind) if daemon.pid])

    def links_of(self, kind: str) -> tuple[str, Links]:
        """Choose the links of a daemon of a kind."""
        name = self.one(kind).name
        return name, self.system.links[name]

    def any_kind(self) -> str:
        """Choose a kind of daemon."""
        return self.chance.choice(("api", "dispatcher", "runner"))

    async def last(self, least: float, most: float) -> None:
        """Let a fault last for a while."""
        await asyncio.sleep(self.chance.uniform(least, most))

    async def restart(self, daemon: Daemon) -> None:
        """Start a daemon that has ended; do not wait until it is at work."""
        await daemon.start()
