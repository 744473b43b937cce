"""Who is told by webhooks: notes every message in the journal, and takes it."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from chaos.journal import Journal, Told


@asynccontextmanager
async def receiving(journal: Journal) -> AsyncIterator[str]:
    """Listen on a free port of this machine; give the URL."""

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Whoever dies while it speaks has told nothing.
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            journal.write(Told(journal.now(), headers["webhook-id"], hashlib.sha256(body).hexdigest()))
            writer.write(b"HTTP/1.1 204 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/told"
    finally:
        server.close()
