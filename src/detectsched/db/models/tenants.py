"""Whose everything is, who may call, and what devices and objects may have."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import (
    ARRAY,
    CheckConstraint,
    Column,
    Index,
    LargeBinary,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlmodel import Field, SQLModel

from detectsched.db.models.columns import double_, text_, time_


class Tenant(SQLModel, table=True):
    """Whose everything is."""

    __table_args__ = (
        CheckConstraint("weight > 0"),
        CheckConstraint("device_weight > 0"),
        CheckConstraint("rate >= 0"),
        CheckConstraint("burst >= 0"),
    )
    id: str = text_(primary_key=True)
    name: str = text_()
    weight: float = double_(server="1", default=1.0)
    device_weight: float = double_(server="1", default=1.0)
    """Of devices that have no weight of their own."""
    rate: float = double_(server="0", default=0.0)
    burst: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    encrypt_at_rest: bool = Field(default=False, sa_column_kwargs={"server_default": text("false")})
    """Whether new tasks are sealed under the tenant's data key."""
    created_at: datetime = time_()


class DataKeyRow(SQLModel, table=True):
    """A tenant's key for what is encrypted at rest, itself sealed under a master key of the settings."""

    __tablename__: ClassVar[str] = "data_key"
    tenant: str = text_(primary_key=True, foreign_key="tenant.id")
    id: str = text_(primary_key=True)
    sealed: bytes = Field(sa_type=LargeBinary)
    created_at: datetime = time_()


class ApiKey(SQLModel, table=True):
    """A key: its id is public, of its secret only a hash is kept."""

    __tablename__: ClassVar[str] = "api_key"
    __table_args__ = (Index("api_key_tenant", "tenant", "id"),)
    id: str = text_(primary_key=True)
    tenant: str = text_(foreign_key="tenant.id")
    name: str = text_()
    secret_hash: bytes = Field(sa_type=LargeBinary)
    scopes: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False))
    created_at: datetime = time_()
    expires_at: datetime | None = time_(default=False)
    revoked_at: datetime | None = time_(default=False)
    last_used_at: datetime | None = time_(default=False)


class EncryptionKey(SQLModel, table=True):
    """A key pair for encrypted requests; its private part is sealed under a master key of the settings."""

    __tablename__: ClassVar[str] = "encryption_key"
    tenant: str = text_(primary_key=True, foreign_key="tenant.id")
    id: str = text_(primary_key=True)
    """The kid: the thumbprint of the public part (RFC 7638)."""
    algorithm: str = text_()
    public_key: Any = Field(sa_column=Column(JSONB, nullable=False))
    """As a JWK."""
    sealed: bytes = Field(sa_type=LargeBinary)
    created_at: datetime = time_()
    retired_at: datetime | None = time_(default=False)


class Device(SQLModel, table=True):
    """A device that has submitted something, and what its queue is entitled to."""

    __table_args__ = (
        CheckConstraint("weight > 0"),
        CheckConstraint("in_flight >= 0"),
        CheckConstraint("rate >= 0"),
        CheckConstraint("burst >= 0"),
    )
    tenant: str = text_(primary_key=True, foreign_key="tenant.id")
    mac: str = text_(primary_key=True)
    name: str = text_(default="")
    weight: float | None = double_(default=None)
    """None: the tenant's device_weight."""
    in_flight: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    rate: float = double_(server="0", default=0.0)
    burst: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    first_seen_at: datetime = time_()
    last_seen_at: datetime = time_()


class ObjectRow(SQLModel, table=True):
    """What is set for an object; one without a row has the tenant's defaults."""

    __tablename__: ClassVar[str] = "object"
    tenant: str = text_(primary_key=True, foreign_key="tenant.id")
    name: str = text_(primary_key=True)
    word_lists: list[str] | None = Field(default=None, sa_column=Column(ARRAY(Text)))
    """The lists that judge its tasks where these name none; None: the tenant's default lists."""


class Pause(SQLModel, table=True):
    """Something that is paused: ``lane:<lane>``, ``tenant:<tenant>``, ``subject:<subject>`` or ``runner:<name>``."""

    what: str = text_(primary_key=True)
    tenant: str | None = text_()
    """Whose it is; None for what belongs to the platform."""
    reason: str = text_(default="")
    paused_by: str = text_()
    paused_at: datetime = time_()
