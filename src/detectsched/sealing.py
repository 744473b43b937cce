"""Encryption of what is kept: AES-256-GCM under master keys from the settings.

A sealed value names its master key, so that several may be in use while one replaces another. Each value is bound to
a *context*, words that say what it is and whose: moved anywhere else, it cannot be opened.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Sequence
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from detectsched.errors import SealBroken
from detectsched.settings import EncryptionSettings

_VERSION: Final = b"\x01"
_ID_BYTES: Final = 8
_NONCE_BYTES: Final = 12
"""96 random bits, as NIST SP 800-38D advises; one key may seal 2^32 values so."""


class MasterKeys:
    """The master keys of an installation: the first seals, all open. May be empty; then nothing can be sealed."""

    def __init__(self, keys: Sequence[bytes] = ()) -> None:
        self._keys = {_id_of(key): AESGCM(key) for key in keys}
        self.current = _id_of(keys[0]) if keys else None
        """Names the key that seals: eight bytes of its hash."""

    @classmethod
    def of(cls, settings: EncryptionSettings) -> MasterKeys:
        """Return those of the settings."""
        texts = settings.master_keys.get_secret_value().replace(",", " ").split()
        return cls([base64.b64decode(text) for text in texts])

    def seal(self, plain: bytes, context: str) -> bytes:
        """Return ``version (1 byte), master key (8), nonce (12), ciphertext and tag``.

        Raises:
            SealBroken: there is no master key.
        """
        if self.current is None:
            raise SealBroken("there is no master key: set DETECTSCHED_ENCRYPTION_MASTER_KEYS")
        nonce = os.urandom(_NONCE_BYTES)
        head = _VERSION + self.current
        return head + nonce + self._keys[self.current].encrypt(nonce, plain, head + context.encode())

    def open(self, sealed: bytes, context: str) -> bytes:
        """Return what was sealed in this context.

        Raises:
            SealBroken: its master key is not there, it was sealed in another context, or it is damaged.
        """
        head, rest = sealed[: 1 + _ID_BYTES], sealed[1 + _ID_BYTES :]
        key = self._keys.get(head[1:])
        if key is None or head[:1] != _VERSION:
            raise SealBroken(
                f"{context} was sealed under the master key {head[1:].hex()}, which is not in "
                "DETECTSCHED_ENCRYPTION_MASTER_KEYS"
            )
        try:
            return key.decrypt(rest[:_NONCE_BYTES], rest[_NONCE_BYTES:], head + context.encode())
        except (InvalidTag, ValueError):
            raise SealBroken(f"{context} is damaged, or is not what was sealed there") from None


def master_of(sealed: bytes) -> bytes:
    """Return which master key a value was sealed under, as `MasterKeys.current` names it."""
    return sealed[1 : 1 + _ID_BYTES]


def _id_of(key: bytes) -> bytes:
    return hashlib.sha256(b"detectsched master key" + key).digest()[:_ID_BYTES]
