"""Uvicorn's HTTP/1.1 with bounds on what a stranger may send before anybody has asked who he is.

httptools limits neither a request's head nor the time it takes, and uvicorn reads on when a request was refused.
"""

from __future__ import annotations

import asyncio
from typing import Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

MOST_HEAD_BYTES: Final = 65_536
"""Bytes of a head, or of anything else that is no body: chunk sizes, trailers."""
HEAD_SECONDS: Final = 30.0
"""How long a head may take, from the connection or from its first byte."""
MOST_DISCARDED_BYTES: Final = 67_108_864
"""How much of a refused body is read and thrown away, so that its sender gets to read the refusal."""

_TOO_LARGE: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class BoundedProtocol(HttpToolsProtocol):
    """One connection."""

    _beside_bodies = 0
    _discarded = 0
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a head."""
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        self._stop_expecting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what came, and close the connection when it is too much."""
        self._beside_bodies += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._beside_bodies > MOST_HEAD_BYTES:
            if self._is_idle():
                self.transport.write(_TOO_LARGE)
            self.transport.close()
        elif self._discarded > MOST_DISCARDED_BYTES:
            self.transport.close()
        elif self._beside_bodies and self._is_idle():
            self._expect_head()

    def on_headers_complete(self) -> None:
        """Begin a request."""
        self._beside_bodies = self._discarded = 0
        self._stop_expecting()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a piece of a body, or throw it away when the answer is given already."""
        self._beside_bodies = 0
        if self._is_idle():
            self._discarded += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request's body."""
        self._beside_bodies = 0
        super().on_message_complete()

    def _is_idle(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete

    def _expect_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _stop_expecting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
