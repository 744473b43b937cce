"""The application on this test's stores."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from detectsched.settings import Settings
from tests.api.rig import Rig, rigged


@pytest.fixture
async def rig(settings: Settings) -> AsyncIterator[Rig]:
    """Give the API on real stores, its gate open."""
    async with rigged(settings) as rig:
        yield rig


@pytest.fixture
async def client(rig: Rig) -> AsyncIterator[httpx.AsyncClient]:
    """Give a client with all scopes of the tenant acme."""
    async with rig.client() as client:
        yield client
