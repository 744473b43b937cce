"""Commands as processes, against an API that runs in the test."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import SecretStr

from detectsched.api.server import ApiServer
from detectsched.settings import ENV_PREFIX, Settings
from tests.api.rig import Rig, rigged


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command said, and its exit status."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The JSON of standard output."""
        assert self.status == 0, self.err
        return json.loads(self.out)


@dataclass(frozen=True, slots=True)
class Shell:
    """Runs ``detectsched`` with these variables."""

    variables: dict[str, str]

    async def __call__(self, *arguments: str, **variables: str | None) -> Ran:
        """Run a command; a variable that is None is taken away."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(ENV_PREFIX)}
        environment |= self.variables
        for name, value in variables.items():
            environment.pop(name, None)
            if value is not None:
                environment[name] = value
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "detectsched",
            *arguments,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        assert process.returncode is not None
        assert "Traceback" not in err.decode()
        return Ran(process.returncode, out.decode(), err.decode())


@pytest.fixture
async def rig(settings: Settings) -> AsyncIterator[Rig]:
    """Give the API's stores, and its keys."""
    async with rigged(settings) as rig:
        yield rig


@pytest.fixture
async def shell(rig: Rig) -> AsyncIterator[Shell]:
    """Give a shell that knows a running API, and the key of all scopes."""
    settings = rig.settings
    api = settings.api.model_copy(update={"port": 0})
    server = ApiServer(rig.queue, rig.ledger, rig.blobs, settings.model_copy(update={"api": api}))
    await server.start()
    yield Shell({"DETECTSCHED_URL": f"http://127.0.0.1:{server.port}", "DETECTSCHED_KEY": rig.keys["boss"]})
    await server.stop()


@pytest.fixture
def postgres_variable(settings: Settings) -> dict[str, str]:
    """Give the variable with which a command finds this test's ledger."""
    url: SecretStr = settings.postgres.url
    return {"DETECTSCHED_POSTGRES_URL": url.get_secret_value()}
