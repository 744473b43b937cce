"""Reading more rows than fit into memory: a cursor on the server, chunk by chunk."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final

from detectsched.db.connection import Ledger

_CHUNK: Final = 1000


async def chunks(ledger: Ledger, query: str, *arguments: Any) -> AsyncGenerator[Sequence[Any], None]:
    """Yield the rows of a query, up to a thousand at a time, as they were when it began.

    A connection is held until the generator is closed.
    """
    async with ledger.connection() as connection, connection.transaction(readonly=True):
        cursor = await connection.cursor(query, *arguments)
        while rows := await cursor.fetch(_CHUNK):
            yield rows
