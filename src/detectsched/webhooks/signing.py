"""Signatures as of Standard Webhooks 1.0 (https://www.standardwebhooks.com): HMAC-SHA256 over id, time and body."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from typing import Final

PREFIX: Final = "whsec_"

_BYTES: Final = 32
"""Of a new secret; the specification asks for 24 to 64."""


def new_secret() -> str:
    """Return a secret as receivers are given it: ``whsec_`` and base64 of its bytes."""
    return PREFIX + base64.b64encode(secrets.token_bytes(_BYTES)).decode()


def headers(message_id: str, timestamp: int, body: bytes, keys: Sequence[str]) -> dict[str, str]:
    """Return the headers that prove a message; each secret gives a signature, so that either side may rotate first.

    ``timestamp`` is that of this attempt, in seconds since 1970: a receiver refuses what is minutes old.
    """
    signed = b".".join((message_id.encode(), str(timestamp).encode(), body))
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(f"v1,{_signature(key, signed)}" for key in keys),
    }


def _signature(secret: str, signed: bytes) -> str:
    key = base64.b64decode(secret.removeprefix(PREFIX))
    return base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
