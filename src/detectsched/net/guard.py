"""Keeps requests to URLs that strangers chose (images by URL, webhooks) out of our own networks.

A name is resolved once, every address it has must be allowed, and the connection goes to one of those addresses: a name
server that answers differently the second time (DNS rebinding) is never asked a second time. A client made here follows
no redirects, reads no proxy or credential from the environment, and keeps no connection open.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

import httpx

from detectsched.errors import ForbiddenTarget

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""From a host's name and a port to its addresses as texts; raises OSError when there are none."""

_V6_GLOBAL: Final = ipaddress.IPv6Network("2000::/3")
"""The only part of IPv6 that is given out for use in the whole Internet (IANA, IPv6 Global Unicast Addresses)."""
_NEVER: Final[tuple[Network, ...]] = (
    ipaddress.IPv4Network("192.0.0.0/24"),  # protocol assignments (RFC 6890)
    ipaddress.IPv4Network("192.88.99.0/24"),  # relays to 6to4 (RFC 7526)
    ipaddress.IPv6Network("2001::/23"),  # protocol assignments, Teredo among them: carries IPv4 addresses
    ipaddress.IPv6Network("2001:db8::/32"),  # documentation
    ipaddress.IPv6Network("2002::/16"),  # 6to4: carries IPv4 addresses
    ipaddress.IPv6Network("3fff::/20"),  # documentation (RFC 9637)
)
"""What the standard library's ``is_global`` lets pass, in Python 3.11 at least."""


def is_public(address: Address) -> bool:
    """Whether an address belongs to the Internet at large: not to us, a machine itself, or a special purpose.

    IPv6 forms that carry an IPv4 address (mapped, 6to4, Teredo, NAT64) are not public, whatever they carry.
    """
    if any(address.version == network.version and address in network for network in _NEVER):
        return False
    if isinstance(address, ipaddress.IPv6Address):
        return address in _V6_GLOBAL and address.is_global
    return address.is_global and not address.is_multicast and not address.is_reserved


@dataclass(frozen=True, slots=True)
class Guard:
    """What may be asked for; `check_url` looks at a URL, `addresses` at where it leads.

    ``networks`` are allowed although they are not public, for operators whose receivers are inside; together with
    ``schemes`` and ``ports`` that is all that can be opened. ``resolve`` is the system's resolver.
    """

    schemes: frozenset[str] = frozenset({"https"})
    ports: frozenset[int] = frozenset({443})
    networks: tuple[Network, ...] = ()
    resolve: Resolve | None = None

    def check_url(self, url: str) -> httpx.URL:
        """Return a URL whose form is allowed; its name is not looked up yet.

        Raises:
            ForbiddenTarget: another scheme or port, credentials in it, no host, or an address that is not allowed.
        """
        try:
            parsed = httpx.URL(url)
        except (httpx.InvalidURL, UnicodeError, ValueError):
            raise ForbiddenTarget("this is not a URL: give one like https://example.org/path") from None
        if parsed.scheme not in self.schemes:
            raise ForbiddenTarget(f"only {_listed(self.schemes)} is fetched: give such a URL")
        if parsed.userinfo:
            raise ForbiddenTarget("the URL holds credentials: leave out what is in front of the @")
        if not parsed.host:
            raise ForbiddenTarget("the URL names no host: give one like https://example.org/path")
        if _port_of(parsed) not in self.ports:
            raise ForbiddenTarget(f"only port {_listed(self.ports)} is asked: leave the port out of the URL")
        try:
            address = ipaddress.ip_address(parsed.host)
        except ValueError:
            return parsed
        self._require(address)
        return parsed

    async def addresses(self, host: str, port: int) -> list[Address]:
        """Resolve a host, once; every address it has must be allowed.

        Raises:
            ForbiddenTarget: one of them is not: a name with a public and an inner address is an attempt.
            OSError: there is none.
        """
        found = [ipaddress.ip_address(text.partition("%")[0]) for text in await (self.resolve or _resolve)(host, port)]
        if not found:
            raise OSError(f"{host} has no address")
        for address in found:
            self._require(address)
        return found

    def client(self, *, timeout_seconds: float, verify: bool = True) -> httpx.AsyncClient:
        """Return a client that connects to allowed addresses only; ``timeout_seconds`` is for each step of a request.

        Its requests raise `ForbiddenTarget`, or `httpx.HTTPError` as usual.
        """
        return httpx.AsyncClient(
            transport=_GuardedTransport(self, verify=verify),
            timeout=timeout_seconds,
            follow_redirects=False,
            trust_env=False,
        )

    def _require(self, address: Address) -> None:
        inside = any(address.version == network.version and address in network for network in self.networks)
        if not inside and not is_public(address):
            # Without the address: whoever probes our network by names learns nothing from the answer.
            raise ForbiddenTarget("the URL does not lead to the public Internet: give one that does")


class _GuardedTransport(httpx.AsyncBaseTransport):
    """Sends each request to an address that was checked, under the name that the URL gave (Host, SNI, certificate)."""

    def __init__(self, guard: Guard, *, verify: bool) -> None:
        self._guard = guard
        # A kept connection belongs to an address: it would serve the next name that has the same address, without that
        # name's certificate having been seen.
        self._inner = httpx.AsyncHTTPTransport(
            verify=verify, trust_env=False, limits=httpx.Limits(max_keepalive_connections=0)
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = self._guard.check_url(str(request.url))
        try:
            addresses = await self._guard.addresses(url.host, _port_of(url))
        except OSError as error:
            raise httpx.ConnectError(f"{url.host} cannot be resolved", request=request) from error
        request.url = url.copy_with(host=str(addresses[0]))
        request.extensions = {**request.extensions, "sni_hostname": url.host}
        try:
            return await self._inner.handle_async_request(request)
        finally:
            request.url = url

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _resolve(host: str, port: int) -> list[str]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:  # a label that is too long or empty
        raise OSError(str(error)) from error
    return [str(entry[4][0]) for entry in found]


def _port_of(url: httpx.URL) -> int:
    return url.port or {"https": 443, "http": 80}.get(url.scheme, 0)


def _listed(items: frozenset[str] | frozenset[int]) -> str:
    return " or ".join(sorted(map(str, items)))
