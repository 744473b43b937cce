"""The API on this test's stores, with a master key, and senders of the tenant acme."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator

import httpx
import pytest
from pydantic import SecretStr

from detectsched.settings import EncryptionSettings, Settings
from tests.api.rig import Rig, rigged

MASTER_KEY = base64.b64encode(bytes(range(32))).decode()


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Give the settings of a system with a master key."""
    return settings.model_copy(update={"encryption": EncryptionSettings(master_keys=SecretStr(MASTER_KEY))})


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
