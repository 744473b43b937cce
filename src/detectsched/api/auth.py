"""Who is calling, decided before a byte of the body is read; and what the caller may do, decided by each route.

Deny by default: `Authentication` lets nobody pass without a key except to `PUBLIC_PATHS`, and every route names its
scope with `Require`. ``/metrics`` shows figures of the whole system, of no tenant: it is open to the machine itself,
and elsewhere to admin keys (docs/decisions/0007-metrics-for-the-machine.md).
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections import OrderedDict
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Depends, Request
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as AsgiScope

from detectsched.clock import monotonic
from detectsched.db.api_keys import Principal, Scope, authenticate
from detectsched.db.connection import Ledger
from detectsched.errors import Forbidden, Unauthenticated

PUBLIC_PATHS: Final = frozenset({"/livez", "/readyz"})
METRICS_PATH: Final = "/metrics"

_PRINCIPAL: Final = "detectsched.principal"
_MOST_CACHED: Final = 10_000
_FORWARDED: Final = ("forwarded", "x-forwarded-for", "x-real-ip", "via")


class KeyCache:
    """Principals by the SHA-256 of their key, believed for a while: a key is looked up seconds apart, not per request.

    Only good keys are kept, so that one made a moment ago works at once and guessing fills nothing.
    """

    def __init__(self, ledger: Ledger, *, seconds: float, most: int = _MOST_CACHED) -> None:
        self._ledger = ledger
        self._seconds = seconds
        self._most = most
        self._known: OrderedDict[bytes, tuple[float, Principal]] = OrderedDict()

    async def principal_of(self, key: str) -> Principal:
        """Return who a key belongs to.

        Raises:
            Unauthenticated: nobody.
            StoreUnavailable: PostgreSQL is away, and the key is not known well enough.
        """
        digest = hashlib.sha256(key.encode()).digest()
        found = self._known.get(digest)
        if found is not None and monotonic() < found[0]:
            return found[1]
        self._known.pop(digest, None)
        principal = await authenticate(self._ledger, key)
        self._known[digest] = (monotonic() + self._seconds, principal)
        while len(self._known) > self._most:
            self._known.popitem(last=False)
        return principal


class Authentication:
    """ASGI middleware: finds out who is calling."""

    def __init__(self, app: ASGIApp, keys: KeyCache) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Raise `Unauthenticated` for whoever has no key and needs one."""
        if scope["type"] == "http" and not _is_public(scope):
            scope[_PRINCIPAL] = await self._keys.principal_of(_key_of(scope))
        await self._app(scope, receive, send)


def _is_public(scope: AsgiScope) -> bool:
    path = scope["path"].removeprefix(scope.get("root_path", ""))
    return path in PUBLIC_PATHS or (path == METRICS_PATH and is_this_machine(scope))


def _key_of(scope: AsgiScope) -> str:
    """Return the key of ``Authorization: Bearer``, else of ``X-API-Key``."""
    headers = Headers(scope=scope)
    scheme, _, credentials = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return credentials.strip()
    return headers.get("x-api-key", "").strip()


def is_this_machine(scope: AsgiScope) -> bool:
    """Whether the caller is on this machine itself, and not behind a proxy on it that says whom it speaks for."""
    client = scope.get("client")
    if client is None or any(name in Headers(scope=scope) for name in _FORWARDED):
        return False
    try:
        return ipaddress.ip_address(client[0]).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Require:
    """A dependency that gives a route its caller, if the caller's key has a scope."""

    scope: Scope

    async def __call__(self, request: Request) -> Principal:
        """Return the caller."""
        principal: Principal | None = request.scope.get(_PRINCIPAL)
        if principal is None:
            raise Unauthenticated("this route needs an API key; send it as 'Authorization: Bearer ds_…'")
        if not principal.may(self.scope):
            raise Forbidden(f"this API key lacks the scope {self.scope.value!r}: use one that has it")
        return principal


async def require_admin_or_this_machine(request: Request) -> None:
    """Guard what shows the whole system."""
    if not is_this_machine(request.scope):
        await Require(Scope.ADMIN)(request)


Submitter = Annotated[Principal, Depends(Require(Scope.SUBMIT))]
Reader = Annotated[Principal, Depends(Require(Scope.READ))]
Admin = Annotated[Principal, Depends(Require(Scope.ADMIN))]
Operator = Annotated[Principal, Depends(Require(Scope.OPERATE))]
