"""Which URLs tenants may name, by the settings; `net.guard` is what keeps us to it."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Final

from detectsched.errors import ForbiddenTarget, InvalidRequest
from detectsched.net.guard import Guard, Resolve
from detectsched.settings import WebhookSettings

MAX_URL: Final = 2000

_MAX_HOST: Final = 253
"""Longest name that DNS has (RFC 1035)."""
_ANY_PORT: Final = frozenset(range(1, 65_536))


def guard_of(settings: WebhookSettings, resolve: Resolve | None = None) -> Guard:
    """Return the guard that the settings ask for."""
    return Guard(
        schemes=frozenset({"https", "http"} if settings.allow_http else {"https"}),
        ports=frozenset(map(int, settings.ports)) or _ANY_PORT,
        networks=tuple(map(ipaddress.ip_network, settings.allow_networks)),
        resolve=resolve,
    )


def checked_url(text: str, guard: Guard, *, field: str) -> str:
    """Return a URL in the form that is kept; its name is looked up when it is used, each time.

    Raises:
        InvalidRequest: nothing would be sent there.
    """
    try:
        url = guard.check_url(text)
    except ForbiddenTarget as error:
        error.field = field
        raise
    if url.fragment:
        raise InvalidRequest("the URL holds a fragment (#), which is never sent: leave it out", field=field)
    # Looked at as it is kept: what had to be escaped is longer, and an index has no room for a host of any length.
    kept = str(url)
    if len(kept) > MAX_URL or len(url.raw_host) > _MAX_HOST:
        raise InvalidRequest(
            f"the URL, or the name of its host, is longer than {MAX_URL} ({_MAX_HOST}) characters", field=field
        )
    return kept


def resolver(threads: Executor) -> Resolve:
    """Return the system's resolver in threads of one's own: names that resolve slowly hold up nobody else's."""

    async def resolve(host: str, port: int) -> Sequence[str]:
        return await asyncio.get_running_loop().run_in_executor(threads, _look_up, host, port)

    return resolve


def _look_up(host: str, port: int) -> list[str]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:  # a label that is too long or empty
        raise OSError(str(error)) from error
    return [str(entry[4][0]) for entry in found]
