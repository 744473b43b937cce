"""What tests of the relay act with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from detectsched.dispatcher.relay import Relay
from detectsched.settings import WebhookSettings
from tests.support.outbox import Outbox

LAX: Final = WebhookSettings(
    allow_http=True,
    allow_networks=("127.0.0.0/8",),
    ports=(),
    timeout_seconds=1.0,
    claim_seconds=2.0,
    max_attempts=3,
)
CALM: Final = 600.0
"""A tick that no test waits for."""


async def turn(relay: Relay) -> int:
    """Let the relay send what is due, and wait for the answers."""
    begun = await relay.run_once()
    await relay.settled()
    return begun


def state(outbox: Outbox, wanted: str, count: int = 1) -> Callable[[], object]:
    """Return a condition: so many messages are in a state."""

    async def reached() -> bool:
        return [row["state"] for row in await outbox.deliveries()].count(wanted) == count

    return reached
