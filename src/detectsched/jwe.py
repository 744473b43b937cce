"""Encrypted requests: JWE in the compact serialization (RFC 7516), and the keys for it.

Every way in which one cannot be opened raises `NotOpened`; what is done about it is up to the caller. The header is
checked whole before anything is computed, against a fixed list: no compression, no critical extension, no key or
address of a key inside it, no password (docs/decisions/0011-encrypted-requests.md).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from joserfc import jwe
from joserfc.jwk import ECKey, KeyParameters, RSAKey
from joserfc.util import urlsafe_b64decode

PrivateKey: TypeAlias = ECKey | RSAKey

CONTENT_ENCRYPTION: Final = "A256GCM"
MEDIA_TYPE: Final = "application/jose"

MOST_HEADER: Final = 2048
"""Longest header, in characters of base64url; the claims fill half of it at most."""
_MOST_KEY: Final = 1024
_RSA_BITS: Final = 3072


class KeyAlgorithm(StrEnum):
    """How the key of a request's content reaches us."""

    ECDH = "ECDH-ES+A256KW"
    """Agreed upon with a one-time key of the sender, on the curve P-256: the usual."""
    RSA = "RSA-OAEP-256"
    """Encrypted under a key of 3072 bits, for senders that have RSA only."""


class Reason(StrEnum):
    """Why a request cannot be opened; for operators alone."""

    MALFORMED = "malformed"
    """Not five parts of base64url, or a header that is not JSON or too long."""
    HEADER = "header"
    """A header with something that is not taken, or without what is needed."""
    KEY = "key"
    """The tenant has no such key, for this algorithm, or has retired it."""
    AUDIENCE = "audience"
    """It was made for another tenant."""
    TIME = "time"
    """It has expired, is not valid yet, or would be for too long."""
    DECRYPTION = "decryption"
    """Made under another key, or changed since."""


class NotOpened(Exception):
    """A request that cannot be opened."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.value)
        self.reason = reason


class EphemeralKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The sender's one-time key."""

    kty: Literal["EC"]
    crv: Literal["P-256"]
    x: Annotated[str, msgspec.Meta(max_length=43)]
    y: Annotated[str, msgspec.Meta(max_length=43)]


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The protected header: what a request was made with, for whom and when. Nothing else may stand in it."""

    alg: KeyAlgorithm
    enc: Literal["A256GCM"]
    kid: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    aud: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    """The tenant."""
    iat: float
    """When it was made, in seconds since the epoch."""
    exp: float
    """Until when it may be accepted."""
    jti: Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=r"^[!-~]+$")]
    """Names the request: it is its Idempotency-Key."""
    typ: Literal["JOSE"] | None = None
    cty: Literal["json", "application/json"] | None = None
    epk: EphemeralKey | None = None


@dataclass(frozen=True, slots=True)
class Claims:
    """What must be true of a request."""

    tenant: str
    now: float
    clock_skew_seconds: float
    max_lifetime_seconds: float

    def check(self, header: Header) -> None:
        """Return if it is.

        Raises:
            NotOpened: it was made for somebody else, or for another time.
        """
        if header.aud != self.tenant:
            raise NotOpened(Reason.AUDIENCE)
        begun = header.iat <= self.now + self.clock_skew_seconds
        over = header.exp <= self.now - self.clock_skew_seconds
        if not begun or over or not 0 < header.exp - header.iat <= self.max_lifetime_seconds:
            raise NotOpened(Reason.TIME)


def read_header(compact: bytes) -> Header:
    """Return the header of a request, nothing of which is proven yet.

    Raises:
        NotOpened: it is not a JWE, or not of a kind that is taken.
    """
    parts = compact.split(b".", 5)
    if len(parts) != 5 or len(parts[0]) > MOST_HEADER:
        raise NotOpened(Reason.MALFORMED)
    try:
        header = msgspec.json.decode(urlsafe_b64decode(parts[0]), type=Header)
    except msgspec.ValidationError:
        raise NotOpened(Reason.HEADER) from None
    except (ValueError, RecursionError):
        # Not base64, not UTF-8, not JSON.
        raise NotOpened(Reason.MALFORMED) from None
    if (header.epk is None) == (header.alg is KeyAlgorithm.ECDH):
        raise NotOpened(Reason.HEADER)
    return header


def decrypt(compact: bytes, header: Header, key: PrivateKey) -> bytes:
    """Return the content of a request whose header is good; slow enough for a thread.

    Raises:
        NotOpened: it was made under another key, or changed since.
    """
    # Ours have been checked more strictly; theirs would stumble over the claims.
    registry = jwe.JWERegistry(algorithms=[header.alg.value, CONTENT_ENCRYPTION], strict_check_header=False)
    registry.max_protected_header_length = MOST_HEADER
    registry.max_encrypted_key_length = _MOST_KEY
    registry.max_ciphertext_length = len(compact)
    try:
        content = jwe.decrypt_compact(compact, key, registry=registry).plaintext
    except Exception:  # noqa: BLE001 - whatever it is, it tells of keys and content: nothing of it may go further
        raise NotOpened(Reason.DECRYPTION) from None
    if content is None:
        raise NotOpened(Reason.DECRYPTION)
    return content


def new_key(algorithm: KeyAlgorithm) -> PrivateKey:
    """Make a key, named by its thumbprint (RFC 7638); slow enough for a thread."""
    parameters: KeyParameters = {"use": "enc", "alg": algorithm.value}
    key: PrivateKey
    if algorithm is KeyAlgorithm.ECDH:
        key = ECKey.generate_key("P-256", parameters, auto_kid=True)
    else:
        key = RSAKey.generate_key(_RSA_BITS, parameters, auto_kid=True)
    return key


def public_part(key: PrivateKey) -> dict[str, Any]:
    """Return what senders are given, as a JWK."""
    return dict(key.as_dict(private=False))


def key_to_bytes(key: PrivateKey) -> bytes:
    """Return a key as it is kept, sealed."""
    return json.dumps(key.as_dict(private=True)).encode()


def key_from_bytes(data: bytes) -> PrivateKey:
    """Return a key that was kept."""
    document: Mapping[str, Any] = json.loads(data)
    return (ECKey if document["kty"] == "EC" else RSAKey).import_key(dict(document))
