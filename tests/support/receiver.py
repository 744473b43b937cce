"""A receiver of webhooks on the loopback interface: notes what comes, and answers as the test says."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

Answer: TypeAlias = Callable[[asyncio.StreamWriter], Awaitable[None]]

_TOLERANCE_SECONDS: Final = 300


@dataclass(frozen=True)
class Received:
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def message_id(self) -> str:
        """The webhook-id."""
        return self.headers["webhook-id"]

    @property
    def document(self) -> dict[str, Any]:
        """The body."""
        found: dict[str, Any] = json.loads(self.body)
        return found

    def is_signed_by(self, secret: str, *, now: float) -> bool:
        """Verify it as the specification of Standard Webhooks says, from the raw bytes."""
        timestamp = self.headers["webhook-timestamp"]
        if abs(now - int(timestamp)) > _TOLERANCE_SECONDS:
            return False
        assert secret.startswith("whsec_")
        key = base64.b64decode(secret[len("whsec_") :], validate=True)
        assert 24 <= len(key) <= 64
        content = f"{self.message_id}.{timestamp}.".encode() + self.body
        expected = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
        signatures = [item.split(",", 1) for item in self.headers["webhook-signature"].split(" ")]
        return any(kind == "v1" and hmac.compare_digest(value, expected) for kind, value in signatures)


def status(code: int, **headers: str) -> Answer:
    """Answer with this status."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        lines = [f"HTTP/1.1 {code} X", "Content-Length: 0"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        await writer.drain()

    return answer


async def hang(_writer: asyncio.StreamWriter) -> None:
    """Answer nothing until the test is over."""
    await asyncio.Event().wait()


async def drip(writer: asyncio.StreamWriter) -> None:
    """Send a head that never ends, a little at a time."""
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        writer.write(b"X-A: b\r\n")
        await writer.drain()
        await asyncio.sleep(0.02)


async def reset(writer: asyncio.StreamWriter) -> None:
    """Break the connection off."""
    writer.transport.abort()


async def nonsense(writer: asyncio.StreamWriter) -> None:
    """Speak no HTTP."""
    writer.write(b"SSH-2.0-nonsense\r\n")
    await writer.drain()


async def flood(writer: asyncio.StreamWriter) -> None:
    """Answer 200 with a body of 10 GB."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n")
    while True:
        writer.write(b"x" * 65_536)
        await writer.drain()


async def reset_after_200(writer: asyncio.StreamWriter) -> None:
    """Say 200, and break off before the body is over."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")
    await writer.drain()
    writer.transport.abort()


@dataclass
class Receiver:
    """Listens on 127.0.0.1; ``answers`` are used up one per request, then ``always`` is given."""

    port: int
    always: Answer = field(default_factory=lambda: status(204))
    answers: list[Answer] = field(default_factory=list)
    received: list[Received] = field(default_factory=list)
    open: int = 0
    most_open: int = 0

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}/hook"

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take one request."""
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            self.received.append(Received(head[0].split(" ")[1], headers, body))
            await (self.answers.pop(0) if self.answers else self.always)(writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.open -= 1
            writer.close()


@asynccontextmanager
async def receiving(host: str = "127.0.0.1") -> AsyncIterator[Receiver]:
    """Run a receiver."""
    receiver = Receiver(0)
    connections: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(receiver.handle(reader, writer))
        connections.add(task)
        task.add_done_callback(connections.discard)

    server = await asyncio.start_server(connected, host, 0)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        for task in list(connections):
            task.cancel()
        if connections:
            await asyncio.wait(connections)
