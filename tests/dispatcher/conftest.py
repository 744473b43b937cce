"""A ledger, an opened queue with a clock of its own, and a relay that does nothing by itself with its receiver."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from pydantic import SecretStr

from detectsched.db.connection import Ledger
from detectsched.dispatcher.relay import Relay
from detectsched.settings import PostgresSettings, Settings
from tests.dispatcher.relaying import CALM, LAX
from tests.support.actors import Bench
from tests.support.outbox import Outbox
from tests.support.receiver import Receiver, receiving


@pytest.fixture
async def ledger(postgres_url: str) -> AsyncIterator[Ledger]:
    """Give a ledger on a fresh database."""
    opened = Ledger(PostgresSettings(url=SecretStr(postgres_url), pool_size=4, read_pool_size=2))
    yield opened
    await opened.close()


@pytest.fixture
async def bench(settings: Settings) -> AsyncIterator[Bench]:
    """Give an opened queue."""
    opened = await Bench.opened(settings)
    yield opened
    await opened.clients.close()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """Give a receiver."""
    async with receiving() as running_one:
        yield running_one


@pytest.fixture
def outbox(ledger: Ledger) -> Outbox:
    """Give the outbox of the default tenant."""
    return Outbox(ledger)


@pytest.fixture
async def relay(ledger: Ledger) -> AsyncIterator[Relay]:
    """Give a relay that does nothing by itself."""
    made = Relay(ledger, LAX, tick_seconds=CALM)
    yield made
    await made.stop()
