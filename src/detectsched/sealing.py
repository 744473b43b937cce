"""Encryption of what is kept: AES-256-GCM, in two levels.

Master keys from the settings seal the keys that the database holds, among them one *data key* per tenant; data keys
seal tasks. Each value is bound to a *context*, words that say what it is and whose: moved anywhere else, it cannot be
opened. A master key is named in what it sealed, so that several may be in use while one replaces another.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

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


@dataclass(frozen=True, slots=True)
class DataKey:
    """A tenant's key, open. Each context gets a key of its own, so that no key ever seals too many values."""

    id: str
    tenant: str
    secret: bytes = field(repr=False)

    def seal(self, plain: bytes, context: str) -> bytes:
        """Return ``nonce (12), ciphertext and tag``."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._derived(context).encrypt(nonce, plain, context.encode())

    def open(self, sealed: bytes, context: str) -> bytes:
        """Return what was sealed in this context.

        Raises:
            SealBroken: it was sealed in another context, or it is damaged.
        """
        try:
            return self._derived(context).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], context.encode())
        except (InvalidTag, ValueError):
            raise SealBroken(f"{context} is damaged, or is not what was sealed there") from None

    def digest(self, data: bytes) -> bytes:
        """Return a digest that nobody without the key can compare with guesses (HMAC-SHA256)."""
        return hmac.digest(self.secret, b"digest" + data, "sha256")

    def _derived(self, context: str) -> AESGCM:
        # HKDF (RFC 5869) without its first half: the secret is uniform already.
        return AESGCM(HKDFExpand(SHA256(), 32, context.encode()).derive(self.secret))


@dataclass(frozen=True, slots=True)
class Seal:
    """Seals and opens what belongs to one task: its columns and those of its records, and its blob."""

    key: DataKey
    task_id: UUID

    def text(self, column: str, plain: str) -> str:
        """Return a text as it is kept in a column, in base64."""
        return base64.b64encode(self.key.seal(plain.encode(), self._context(column))).decode()

    def open_text(self, column: str, sealed: str) -> str:
        """Return a column's text.

        Raises:
            SealBroken: it was sealed for another task or column, or it is damaged.
        """
        context = self._context(column)
        try:
            data = base64.b64decode(sealed, validate=True)
        except ValueError:
            raise SealBroken(f"{context} is not sealed, although its task is") from None
        return self.key.open(data, context).decode()

    def blob(self, name: str, plain: bytes) -> bytes:
        """Return a blob as it is kept; it is bound to its name, which several tries at the same image may share."""
        return self.key.seal(plain, self._blob_context(name))

    def open_blob(self, name: str, sealed: bytes) -> bytes:
        """Return a blob.

        Raises:
            SealBroken: it was sealed under another name, or it is damaged.
        """
        return self.key.open(sealed, self._blob_context(name))

    def _context(self, column: str) -> str:
        return f"{column} of task {self.task_id} of {self.key.tenant}"

    def _blob_context(self, name: str) -> str:
        return f"blob {name} of {self.key.tenant}"


def _id_of(key: bytes) -> bytes:
    return hashlib.sha256(b"detectsched master key" + key).digest()[:_ID_BYTES]
