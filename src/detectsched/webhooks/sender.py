"""Sends one message: a POST to a guarded address, no redirects, every wait bounded, and of the answer only its head."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from typing import Final

import httpx

from detectsched.errors import ForbiddenTarget
from detectsched.net.guard import Resolve
from detectsched.settings import WebhookSettings
from detectsched.webhooks.targets import guard_of, resolver
from detectsched.webhooks.verdict import Answer

_HEADERS: Final = {
    "content-type": "application/json",
    "user-agent": f"detectsched/{version('detectsched')}",
    # Nobody reads the body.
    "accept-encoding": "identity",
}


class Sender:
    """Speaks to any number of addresses at once; ``resolve`` is the system's resolver unless told otherwise."""

    def __init__(self, settings: WebhookSettings, resolve: Resolve | None = None) -> None:
        self._seconds = settings.timeout_seconds
        self._threads = ThreadPoolExecutor(settings.max_in_flight, thread_name_prefix="resolve")
        guard = guard_of(settings, resolve or resolver(self._threads))
        self._client = guard.client(timeout_seconds=settings.timeout_seconds)

    async def send(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Send a message and return how it was answered; it never raises for what an address does."""
        try:
            # Over everything: an address that sends a byte a second meets every other limit.
            async with asyncio.timeout(self._seconds):
                return await self._post(url, body, {**headers, **_HEADERS})
        except ForbiddenTarget:
            return Answer(error="forbidden_target")
        except (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError, OSError, ValueError) as error:
            return Answer(error=_word_of(error))

    async def close(self) -> None:
        """Close what is open."""
        await self._client.aclose()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        # The body of the answer is not read, however long it is.
        async with self._client.stream("POST", url, content=body, headers=headers) as answer:
            return Answer(answer.status_code, retry_after=answer.headers.get("retry-after"))


def _word_of(error: Exception) -> str:
    """Return a stable word; an exception's own text would hold the URL, and that may hold a secret."""
    match error:
        case TimeoutError() | httpx.TimeoutException():
            return "timeout"
        case httpx.ConnectError():
            return "certificate" if "CERTIFICATE" in str(error).upper() else "connect_failed"
        case httpx.RemoteProtocolError() | httpx.ReadError() | httpx.WriteError() | httpx.CloseError():
            return "connection_broken"
        case _:
            return "not_sent"
