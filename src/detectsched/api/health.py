"""Whether this process can do its work now, check by check."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from detectsched.clock import monotonic
from detectsched.db import migrate
from detectsched.db.connection import Ledger
from detectsched.errors import ConfigurationError, StoreUnavailable
from detectsched.queueing.queue import Queue
from detectsched.settings import Settings
from detectsched.telemetry import get_logger

log = get_logger(__name__)

_PATIENCE_SECONDS: Final = 2.0
"""A probe is asked every few seconds by something that itself waits about as long."""
_BELIEVED_SECONDS: Final = 0.5
"""Anybody may ask; however many do, the stores are asked no more often."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that must be so; ``detail`` says in words how it is."""

    name: str
    ok: bool
    detail: str


class Readiness:
    """Asks the stores."""

    def __init__(self, queue: Queue, ledger: Ledger, settings: Settings, stopping: asyncio.Event) -> None:
        self._queue = queue
        self._ledger = ledger
        self._settings = settings
        self._stopping = stopping
        self._schema_is_good = False
        self._asking = asyncio.Lock()
        self._asked_at = float("-inf")
        self._answers: list[Check] = []

    async def checks(self) -> list[Check]:
        """Return every check; never raises."""
        running = Check("server", not self._stopping.is_set(), "stopping" if self._stopping.is_set() else "running")
        async with self._asking:
            if monotonic() - self._asked_at > _BELIEVED_SECONDS:
                self._answers = list(
                    await asyncio.gather(
                        self._ask("postgresql", self._postgresql),
                        self._ask("migrations", self._migrations),
                        self._ask("queues", self._queues),
                    )
                )
                self._asked_at = monotonic()
        return [running, *self._answers]

    async def _ask(self, name: str, question: Callable[[], Awaitable[str]]) -> Check:
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                return Check(name, True, await question())
        except TimeoutError:
            return Check(name, False, f"no answer within {_PATIENCE_SECONDS:g} s")
        except ConfigurationError as error:
            return Check(name, False, error.detail)
        except StoreUnavailable as error:
            # Its words may hold addresses: they are for the log.
            log.debug("not ready", check=name, error=error.detail)
            return Check(name, False, "not reachable")

    async def _postgresql(self) -> str:
        async with self._ledger.connection() as connection:
            await connection.fetchval("SELECT 1")
        return "reachable"

    async def _migrations(self) -> str:
        # A schema that was good once stays good: migrations only go forward, and a newer one is good as well.
        if not self._schema_is_good:
            await migrate.check(self._settings.postgres)
            self._schema_is_good = True
        return "up to date"

    async def _queues(self) -> str:
        if not await self._queue.is_open():
            raise ConfigurationError("being rebuilt from the ledger; that needs a dispatcher")
        return "open"
