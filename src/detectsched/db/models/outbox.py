"""What follows from results: commands, messages to webhooks, and the audit log."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    BigInteger,
    CheckConstraint,
    Column,
    Identity,
    Index,
    Text,
    desc,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlmodel import Field, SQLModel

from detectsched.db.models.columns import text_, time_


class Command(SQLModel, table=True):
    """Something that a device is to do (send_command of the original); `queue_command` tells webhooks of it."""

    __table_args__ = (
        Index("command_tenant", "tenant", desc("created_at"), desc("id")),
        Index("command_task", "task_id"),
        Index(
            "command_mac",
            "tenant",
            "mac",
            "created_at",
            "id",
            postgresql_where=text("state = 'pending' AND mac IS NOT NULL"),
        ),
        Index(
            "command_object",
            "tenant",
            "object",
            "created_at",
            "id",
            postgresql_where=text("state = 'pending' AND object IS NOT NULL"),
        ),
    )
    id: UUID = Field(primary_key=True)
    """Worked out from task, kind and policy: the same command never has two."""
    tenant: str = text_(foreign_key="tenant.id")
    task_id: UUID | None = Field(foreign_key="task.id", ondelete="SET NULL")
    mac: str | None = text_()
    object: str | None = text_()
    kind: str = text_()
    policy: str = text_(default="")
    level: int = Field(sa_column_kwargs={"server_default": "0"})
    body: Any = Field(sa_column=Column(JSONB, nullable=False, server_default="{}"))
    state: str = text_(default="pending")
    created_at: datetime = time_()
    done_at: datetime | None = time_(default=False)


class CommandPolicyRow(SQLModel, table=True):
    """Which command follows which hits."""

    __tablename__: ClassVar[str] = "command_policy"
    tenant: str = text_(primary_key=True, foreign_key="tenant.id")
    id: str = text_(primary_key=True)
    kind: str = text_()
    min_level: int = Field(sa_column_kwargs={"server_default": "1"})
    max_level: int | None
    categories: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False, server_default="{}"))
    message: str = text_(default="")
    payload: Any = Field(sa_column=Column(JSONB, nullable=False, server_default="{}"))
    enabled: bool = Field(sa_column_kwargs={"server_default": text("true")})
    created_at: datetime = time_()
    updated_at: datetime = time_()


class Webhook(SQLModel, table=True):
    """An address of a tenant that is told of events."""

    __table_args__ = (Index("webhook_tenant", "tenant", "id"),)
    id: UUID = Field(primary_key=True)
    tenant: str = text_(foreign_key="tenant.id")
    url: str = text_()
    events: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False))
    enabled: bool = Field(sa_column_kwargs={"server_default": text("true")})
    disabled_reason: str | None = text_()
    created_at: datetime = time_()


class WebhookSecret(SQLModel, table=True):
    """What signs the messages of a webhook, or (without one) of the tenant's callbacks; an old one until it retires."""

    __tablename__: ClassVar[str] = "webhook_secret"
    __table_args__ = (Index("webhook_secret_owner", "tenant", "webhook_id"),)
    id: int = Field(sa_column=Column(BigInteger, Identity(always=True), primary_key=True))
    tenant: str = text_(foreign_key="tenant.id")
    webhook_id: UUID | None = Field(foreign_key="webhook.id", ondelete="CASCADE")
    secret: str = text_()
    created_at: datetime = time_()
    retires_at: datetime | None = time_(default=False)


class WebhookDelivery(SQLModel, table=True):
    """One message to one address: an outbox. The triggers of migration 0006 fill it."""

    __tablename__: ClassVar[str] = "webhook_delivery"
    __table_args__ = (
        CheckConstraint("webhook_id IS NOT NULL OR url IS NOT NULL"),
        Index("webhook_delivery_message", "message_id", "channel", unique=True),
        Index("webhook_delivery_due", "channel", "next_at", postgresql_where=text("state = 'pending'")),
        Index("webhook_delivery_age", "queued_at", postgresql_where=text("state = 'pending'")),
        Index("webhook_delivery_tenant", "tenant", desc("created_at"), desc("id")),
        Index(
            "webhook_delivery_dead", "tenant", desc("created_at"), desc("id"), postgresql_where=text("state = 'dead'")
        ),
        Index("webhook_delivery_webhook", "webhook_id", postgresql_where=text("webhook_id IS NOT NULL")),
        Index("webhook_delivery_task", "task_id", postgresql_where=text("task_id IS NOT NULL")),
    )
    id: UUID = Field(primary_key=True, sa_column_kwargs={"server_default": text("gen_random_uuid()")})
    message_id: UUID
    """The webhook-id: that of the command, or of the task that ended."""
    tenant: str = text_(foreign_key="tenant.id")
    channel: str = text_()
    """What shares a limit of concurrent requests: a webhook's id, or ``callback/<tenant>/<host>``."""
    webhook_id: UUID | None = Field(foreign_key="webhook.id", ondelete="CASCADE")
    url: str | None = text_()
    """Of a callback; a webhook has its own."""
    task_id: UUID | None = Field(foreign_key="task.id", ondelete="SET NULL")
    event: str = text_()
    body: Any = Field(sa_column=Column(JSONB, nullable=False))
    state: str = text_(default="pending")
    attempts: int = Field(sa_column_kwargs={"server_default": "0"})
    """Claims since it was written, or driven again."""
    created_at: datetime = time_()
    queued_at: datetime = time_()
    """When it was written, or driven again: its age counts from here."""
    next_at: datetime = time_()
    """When it is due; while it is being sent, when its claim runs out, which is also the claim's fence."""
    done_at: datetime | None = time_(default=False)
    last_status: int | None
    last_error: str | None = text_()


class WebhookTotal(SQLModel, table=True):
    """How many sends ended how, ever."""

    __tablename__: ClassVar[str] = "webhook_total"
    outcome: str = text_(primary_key=True)
    count: int = Field(sa_type=BigInteger, sa_column_kwargs={"server_default": "0"})


class AuditLog(SQLModel, table=True):
    """Who did what to what (write_log of the original); only ever appended to."""

    __tablename__: ClassVar[str] = "audit_log"
    __table_args__ = (
        Index("audit_log_tenant", "tenant", desc("at"), desc("id")),
        Index("audit_log_subject", "tenant", "subject", desc("at"), desc("id")),
    )
    id: int | None = Field(default=None, sa_column=Column(BigInteger, Identity(always=True), primary_key=True))
    tenant: str = text_()
    at: datetime = time_()
    actor: str = text_()
    action: str = text_()
    subject: str = text_()
    outcome: str = text_()
    request_id: str | None = text_()
    detail: Any = Field(sa_column=Column(JSONB, nullable=False, server_default="{}"))
