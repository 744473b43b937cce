"""A Valkey that lives as long as a measurement or a simulation, or the one that the user names."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from detectsched.embedded.servers import EmbeddedValkey


@asynccontextmanager
async def temporary_valkey(url: str | None = None) -> AsyncIterator[str]:
    """Give the address of an empty Valkey that is gone afterwards; or ``url`` itself, where there is one.

    Raises:
        ConfigurationError: there is no Valkey to start (the extra ``embedded`` is not installed).
    """
    if url is not None:
        yield url
        return
    with tempfile.TemporaryDirectory(prefix="detectsched-valkey-") as directory:
        server = EmbeddedValkey(Path(directory) / "valkey", durable=False)
        await server.start()
        try:
            yield server.url
        finally:
            await server.stop()
