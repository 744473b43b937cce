"""Redis, PostgreSQL, the blob store, and the keys for what is sealed in them."""

from __future__ import annotations

import base64

from pydantic import Field, SecretStr, field_validator

from detectsched.settings.group import Group, split_names


class RedisSettings(Group):
    """Redis or Valkey: the working memory."""

    url: SecretStr = SecretStr("redis://127.0.0.1:6379/0")
    """Where Redis 7 or Valkey 8 and later listens: redis://, rediss:// or unix://."""
    prefix: str = Field("sensitive", pattern=r"^[a-z0-9_-]{1,32}$")
    """First part of every key."""
    max_connections: int = Field(200, ge=4, le=10_000)
    """Connections one process may open; redis-py raises at once when they are used up."""
    socket_timeout_seconds: float = Field(5.0, gt=0, le=60)
    """How long one command may take; blocking reads have a client of their own with a longer limit."""
    connect_timeout_seconds: float = Field(3.0, gt=0, le=60)
    """How long opening a connection may take."""


class PostgresSettings(Group):
    """PostgreSQL: the ledger."""

    url: SecretStr = SecretStr("postgresql://postgres@127.0.0.1:5432/detectsched")
    """Where PostgreSQL 15 or later listens."""
    pool_size: int = Field(10, ge=1, le=500)
    """Connections one process keeps for the hot paths (accept, start, result)."""
    read_pool_size: int = Field(5, ge=1, le=500)
    """Connections one process keeps for reads and administration (pool_size of the original)."""
    read_pool_overflow: int = Field(10, ge=0, le=500)
    """Connections beyond read_pool_size in a burst (max_overflow)."""
    pool_timeout_seconds: float = Field(10.0, gt=0, le=300)
    """How long a caller waits for a free connection before it is told 503 (pool_timeout)."""
    pool_recycle_seconds: int = Field(1800, ge=10)
    """A read connection older than this is replaced (pool_recycle)."""
    command_timeout_seconds: float = Field(15.0, gt=0, le=600)
    """How long one statement may take."""


class BlobSettings(Group):
    """Where images are kept."""

    url: str = "file:./data/blobs"
    """file:PATH for a local directory, s3://BUCKET/PREFIX for S3 and what speaks it (credentials from AWS_*)."""


class EncryptionSettings(Group):
    """Encrypted requests, and what is encrypted at rest."""

    master_keys: SecretStr = SecretStr("")
    """Master keys, 32 random bytes in base64 each, with commas; the first seals, the others only open; empty: none."""
    clock_skew_seconds: float = Field(60.0, ge=0, le=600)
    """How far a sender's clock may be off when it says when an encrypted request was made and when it ends."""
    max_lifetime_seconds: float = Field(3600.0, gt=0, le=604_800)
    """Longest time from iat to exp of an encrypted request."""

    @field_validator("master_keys")
    @classmethod
    def _check_keys(cls, value: SecretStr) -> SecretStr:
        for place, text in enumerate(split_names(value.get_secret_value()), start=1):
            try:
                good = len(base64.b64decode(text, validate=True)) == 32
            except ValueError:
                good = False
            if not good:
                # Without its text: the message goes to a terminal or a log.
                raise ValueError(f"key {place} is not 32 bytes in base64; make one with: openssl rand -base64 32")
        return value
