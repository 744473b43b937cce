"""An opened queue with a clock of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from detectsched.settings import Settings
from tests.support.actors import Bench


@pytest.fixture
async def bench(settings: Settings) -> AsyncIterator[Bench]:
    """Give an opened queue."""
    opened = await Bench.opened(settings)
    yield opened
    await opened.clients.close()
