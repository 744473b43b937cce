"""A sender of encrypted requests."""

from __future__ import annotations

import base64
import json
import time
import uuid
from typing import Any

from joserfc import jwe
from joserfc.jwk import ECKey, OctKey, RSAKey


def b64(data: bytes) -> str:
    """Return base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def header_of(view: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return the header that a sender writes for a key as the API shows it; what is None is left out."""
    now = int(time.time())
    header = {
        "alg": view["algorithm"],
        "enc": view["content_encryption"],
        "kid": view["kid"],
        "aud": view["audience"],
        "iat": now,
        "exp": now + 300,
        "jti": str(uuid.uuid4()),
    }
    return {name: value for name, value in (header | changes).items() if value is not None}


def compact(
    header: dict[str, Any], key: dict[str, Any] | ECKey | RSAKey | OctKey, document: dict[str, Any] | bytes
) -> str:
    """Return an encrypted request with any header, also a wrong one."""
    if isinstance(key, dict):
        key = (ECKey if key["kty"] == "EC" else RSAKey).import_key(key)
    plain = document if isinstance(document, bytes) else json.dumps(document).encode()
    registry = jwe.JWERegistry(
        algorithms=[header["alg"], header["enc"], *([header["zip"]] if "zip" in header else [])],
        strict_check_header=False,
    )
    return jwe.encrypt_compact(header, plain, key, registry=registry)


def encrypted(view: dict[str, Any], document: dict[str, Any] | bytes, **changes: Any) -> str:
    """Return a request encrypted for a key as the API shows it."""
    return compact(header_of(view, **changes), view["public_key"], document)


def with_header(whole: str, **changes: Any) -> str:
    """Return a request with another header, which nobody could have encrypted under."""
    head, *rest = whole.split(".")
    header = json.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    changed = {name: value for name, value in (header | changes).items() if value is not None}
    return ".".join([b64(json.dumps(changed).encode()), *rest])
