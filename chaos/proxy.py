"""A link to a store that can be cut, slowed, silenced, or made to lose an answer: one listening port per process.

``tc netem`` needs a kernel module that containers lack; a proxy needs nothing. Loopback only.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

Connect: TypeAlias = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]

_CHUNK: Final = 65_536


class Proxy:
    """Passes bytes both ways until it is told otherwise; what it holds back it delivers when it is healed."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._server: asyncio.Server | None = None
        self._open = asyncio.Event()
        self._open.set()
        self._pairs: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self.delay_seconds = 0.0
        self.refusing = False
        self.lose_replies = 0
        """So many of the next answers are lost: the connection breaks instead."""
        self.lose_every = 0
        """Every so many-th answer is lost; 0: none."""
        self.accepted = 0
        """Connections made so far: attempts of a client that keeps trying count as well."""
        self._answers = 0

    @property
    def port(self) -> int:
        """Where it listens."""
        assert self._server is not None, "started"  # noqa: S101 - a bug, not an input
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def start(self) -> None:
        """Listen on a free port of this machine."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)

    async def stop(self) -> None:
        """Break every connection and stop listening."""
        if self._server is not None:
            self._server.close()
        self.cut()
        for pair in list(self._pairs):
            pair.cancel()
        if self._pairs:
            await asyncio.wait(self._pairs)

    def cut(self) -> None:
        """Break every connection at once, without a word."""
        for writer in list(self._writers):
            writer.transport.abort()

    def silence(self) -> None:
        """Hold back every byte, in both directions, until `heal`: nobody is told that anything is wrong."""
        self._open.clear()

    def heal(self) -> None:
        """Pass everything again, also what was held back."""
        self.delay_seconds, self.refusing, self.lose_replies, self.lose_every = 0.0, False, 0, 0
        self._open.set()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        if self.refusing:
            writer.transport.abort()
            return
        pair = asyncio.create_task(self._serve(reader, writer))
        self._pairs.add(pair)
        pair.add_done_callback(lambda ended: self._end(ended, writer))

    def _end(self, pair: asyncio.Task[None], writer: asyncio.StreamWriter) -> None:
        self._pairs.discard(pair)
        # Also where it was cancelled before it had begun.
        writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            their_reader, their_writer = await self._connect()
        except OSError:
            return
        ends = (writer, their_writer)
        self._writers |= set(ends)
        pumps = [
            asyncio.create_task(self._pump(reader, their_writer, answers=False)),
            asyncio.create_task(self._pump(their_reader, writer, answers=True)),
        ]
        try:
            # Whichever side ends first ends both: no protocol of ours closes half a connection.
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.wait(pumps)
            self._writers -= set(ends)
            their_writer.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK):
                if self.delay_seconds:
                    await asyncio.sleep(self.delay_seconds)
                await self._open.wait()
                if answers and self._loses():
                    return
                writer.write(data)
                await writer.drain()

    def _loses(self) -> bool:
        self._answers += 1
        if self.lose_replies > 0:
            self.lose_replies -= 1
            return True
        return bool(self.lose_every) and self._answers % self.lose_every == 0
