"""Whatever PostgreSQL says that means "not now" is `StoreUnavailable`, by either way to it, never a bug."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from pydantic import SecretStr
from sqlmodel import text

from detectsched.db.connection import Ledger
from detectsched.errors import StoreUnavailable
from detectsched.settings import PostgresSettings


async def by_pool(ledger: Ledger) -> None:
    """Ask by the way of the hot statements."""
    async with ledger.connection() as connection:
        await connection.fetchval("SELECT 1")


async def by_session(ledger: Ledger) -> None:
    """Ask by the way of the reads."""
    async with ledger.reading() as session:
        await session.exec(text("SELECT 1"))  # type: ignore[call-overload]  # its types know only SELECTs of models


@asynccontextmanager
async def refusing(sqlstate: str) -> AsyncIterator[Ledger]:
    """Give a ledger whose server refuses every connection with this SQLSTATE."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        length, code = struct.unpack("!II", await reader.readexactly(8))
        if code == 80877103:  # "is TLS spoken here?"
            writer.write(b"N")
            length, code = struct.unpack("!II", await reader.readexactly(8))
        await reader.readexactly(length - 8)
        fields = f"SFATAL\0VFATAL\0C{sqlstate}\0Mnot now\0\0".encode()
        writer.write(b"E" + struct.pack("!I", len(fields) + 4) + fields)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    ledger = Ledger(PostgresSettings(url=SecretStr(f"postgresql://postgres@127.0.0.1:{port}/detectsched")))
    try:
        yield ledger
    finally:
        await ledger.close()
        server.close()


@pytest.mark.parametrize("ask", [by_pool, by_session])
@pytest.mark.parametrize("sqlstate", ["57P03", "53300", "57P01", "57P02", "08006"])
async def test_a_server_that_takes_nobody_is_away(ask: Callable[[Ledger], Awaitable[None]], sqlstate: str) -> None:
    """It is starting up, shutting down, has crashed, or has no connection left."""
    async with refusing(sqlstate) as ledger:
        with pytest.raises(StoreUnavailable):
            await ask(ledger)


@pytest.mark.parametrize("ask", [by_pool, by_session])
async def test_a_statement_that_is_ended_from_outside_says_away(
    ledger: Ledger, ask: Callable[[Ledger], Awaitable[None]]
) -> None:
    """An administrator ends every session: the next question, on a connection that is dead, is told so or answered."""
    await ask(ledger)
    async with ledger.connection() as connection:
        others = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> $1"
        )
        await connection.fetch(others, await connection.fetchval("SELECT pg_backend_pid()"))
    for _ in range(3):
        try:
            await ask(ledger)
        except StoreUnavailable:
            continue
    await ask(ledger)
