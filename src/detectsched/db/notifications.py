"""Hints from PostgreSQL (LISTEN/NOTIFY): something was written that somebody in another process waits for.

Hints get lost, with the connection or behind a pooler that does not pass them on; whoever uses them looks by itself
once a second as well.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from detectsched.db.connection import Ledger
from detectsched.errors import StoreUnavailable
from detectsched.lifecycle import Loop

COMMAND_CHANNEL: Final = "detectsched_command"
"""A command was written; the payload is its subject: ``mac:<tenant>:<mac>`` or ``object:<tenant>:<name>``."""
WEBHOOK_CHANNEL: Final = "detectsched_webhook"
"""A message to a webhook or callback was written."""

_RETRY_SECONDS: Final = 1.0
_CHECK_SECONDS: Final = 30.0
"""A connection that is dead without saying so is noticed within this time."""


class Notifications(Loop):
    """Calls a function for each hint of a channel, with its payload; with ``None`` when hints may have been missed."""

    def __init__(self, ledger: Ledger, heard: Mapping[str, Callable[[str | None], None]]) -> None:
        super().__init__(_RETRY_SECONDS)
        self._ledger = ledger
        self._heard = heard

    async def run_once(self) -> None:
        """Listen until the connection is lost.

        Raises:
            StoreUnavailable: always, in the end.
        """
        async with self._ledger.own_connection() as connection:
            lost = asyncio.Event()
            connection.add_termination_listener(lambda _connection: lost.set())
            for channel, hear in self._heard.items():
                await connection.add_listener(channel, _listener(hear))
                hear(None)
            while not lost.is_set():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(lost.wait(), _CHECK_SECONDS)
                    break
                await connection.execute("SELECT 1")
        raise StoreUnavailable("PostgreSQL has closed the connection that listened")

    async def interrupt(self, task: asyncio.Task[None]) -> None:
        """Break off listening."""
        task.cancel()


def _listener(hear: Callable[[str | None], None]) -> Callable[[Any, int, str, str], None]:
    def heard(_connection: Any, _pid: int, _channel: str, payload: str) -> None:
        hear(payload)

    return heard
