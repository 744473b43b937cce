"""A ledger on a fresh database."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from pydantic import SecretStr

from detectsched.db.connection import Ledger
from detectsched.settings import PostgresSettings


@pytest.fixture
async def ledger(postgres_url: str) -> AsyncIterator[Ledger]:
    """Give a ledger on a fresh, migrated database."""
    opened = Ledger(PostgresSettings(url=SecretStr(postgres_url), pool_size=4, read_pool_size=2))
    yield opened
    await opened.close()
