"""Encrypted requests become plain ones here, before anything looks at their JSON.

A request that cannot be opened is answered with one same problem, whatever the reason, after a time that does not tell
it either; the reason is counted for operators. A good one's ``jti`` is its Idempotency-Key, so that a copy of it that
is sent again yields the same task.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request

from detectsched.api.bodies import media_type_of
from detectsched.api.edge import CONFIDENTIAL
from detectsched.api.limits import limit_of
from detectsched.api.metrics import Metrics
from detectsched.clock import monotonic, utc_now
from detectsched.db.connection import Ledger
from detectsched.db.encryption_keys import private_key
from detectsched.errors import DecryptionRefused, InvalidRequest, TooLarge, UnsupportedMedia
from detectsched.jwe import (
    MEDIA_TYPE,
    Claims,
    Header,
    KeyAlgorithm,
    NotOpened,
    PrivateKey,
    Reason,
    decrypt,
    read_header,
)
from detectsched.settings import Settings
from detectsched.telemetry import get_logger

log = get_logger(__name__)

STEP_SECONDS: Final = 0.05
"""Refusals are told at whole multiples of this: longer than opening an ordinary request takes."""
_MOST_CACHED: Final = 1000
_KEY_FIELD: Final = "Idempotency-Key"


@dataclass(frozen=True, slots=True, repr=False)
class JsonBody:
    """A body that is JSON, or was so before it was encrypted, and the key under which it may be sent again."""

    data: bytes
    idempotency_key: str | None


class Opener:
    """Opens encrypted requests of all tenants; keys are believed for a while, as API keys are."""

    def __init__(self, ledger: Ledger, settings: Settings, metrics: Metrics) -> None:
        self._ledger = ledger
        self._settings = settings
        self._metrics = metrics
        self._known: OrderedDict[tuple[str, str], tuple[float, KeyAlgorithm, PrivateKey]] = OrderedDict()

    async def open(self, compact: bytes, tenant: str) -> tuple[bytes, str]:
        """Return the content of a tenant's request and its ``jti``.

        Raises:
            DecryptionRefused: it cannot be opened.
            SealBroken: the key's master key is not in the settings.
            StoreUnavailable: the key is not known well enough, and PostgreSQL is away.
        """
        began = monotonic()
        try:
            header = read_header(compact)
            self._claims(tenant).check(header)
            key = await self._key(tenant, header)
            content = await asyncio.to_thread(decrypt, compact, header, key)
        except NotOpened as refusal:
            self._metrics.count_encrypted(refusal.reason)
            log.debug("encrypted request refused", reason=refusal.reason.value)
            elapsed = monotonic() - began
            await asyncio.sleep(math.ceil(elapsed / STEP_SECONDS) * STEP_SECONDS - elapsed)
            raise DecryptionRefused(refusal.reason) from None
        self._metrics.count_encrypted("opened")
        return content, header.jti

    def forget(self, tenant: str, kid: str) -> None:
        """Look a key up again when it is needed next."""
        self._known.pop((tenant, kid), None)

    def _claims(self, tenant: str) -> Claims:
        limits = self._settings.encryption
        return Claims(tenant, utc_now().timestamp(), limits.clock_skew_seconds, limits.max_lifetime_seconds)

    async def _key(self, tenant: str, header: Header) -> PrivateKey:
        """Return the key that a header names, for the algorithm that it names.

        The algorithm is the key's, not the sender's choice.
        """
        name = tenant, header.kid
        known = self._known.get(name)
        if known is None or monotonic() >= known[0]:
            self._known.pop(name, None)
            found = await private_key(self._ledger, tenant, header.kid)
            if found is None:
                raise NotOpened(Reason.KEY)
            known = monotonic() + self._settings.api.key_cache_seconds, *found
            self._known[name] = known
            if len(self._known) > _MOST_CACHED:
                self._known.popitem(last=False)
        if known[1] is not header.alg:
            raise NotOpened(Reason.KEY)
        return known[2]


async def read_json_body(
    request: Request, opener: Opener, settings: Settings, tenant: str, key: str | None
) -> JsonBody:
    """Return a request's JSON, opened if it came encrypted; ``key`` is its Idempotency-Key header.

    Raises:
        UnsupportedMedia: neither JSON nor encrypted.
        DecryptionRefused: it cannot be opened.
        TooLarge: its content is larger than a plain body may be.
        InvalidRequest: the header Idempotency-Key is not its jti.
    """
    match media_type_of(request):
        case "application/json":
            return JsonBody(await request.body(), key)
        case media_type if media_type == MEDIA_TYPE:
            # From here on nothing that an error says may be written to a log: it may quote the content.
            request.scope[CONFIDENTIAL] = True
            content, jti = await opener.open(await request.body(), tenant)
        case _:
            raise UnsupportedMedia(f"send the body as application/json, or encrypted as {MEDIA_TYPE}")
    most = limit_of(request.scope, settings.api, encrypted=False)
    if len(content) > most:
        raise TooLarge(f"the decrypted body is larger than {most} bytes, the most that this route takes")
    if key not in {None, jti}:
        raise InvalidRequest(
            "of an encrypted request the jti is the Idempotency-Key: leave the header out", field=_KEY_FIELD
        )
    return JsonBody(content, jti)
