"""Tasks, what was read, judged and found, and what devices report."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Identity,
    Index,
    LargeBinary,
    Text,
    desc,
    text,
)
from sqlalchemy import Sequence as DbSequence
from sqlalchemy.dialects.postgresql import JSONB
from sqlmodel import Field, SQLModel

from detectsched.db.models.columns import FALSE, double_, text_, time_


class Task(SQLModel, table=True):
    """One image or text to examine; a committed row is an accepted task."""

    __table_args__ = (
        CheckConstraint("cost > 0"),
        CheckConstraint("mac IS NOT NULL OR object IS NOT NULL"),
        CheckConstraint("text IS NOT NULL OR blob IS NOT NULL"),
        ForeignKeyConstraint(["tenant", "data_key"], ["data_key.tenant", "data_key.id"]),
        Index(
            "task_idempotency",
            "tenant",
            "idempotency_key",
            unique=True,
            postgresql_where=text("idempotency_key IS NOT NULL"),
        ),
        Index("task_tenant", "tenant", desc("id")),
        Index("task_tenant_state", "tenant", "state", desc("id")),
        Index("task_tenant_mac", "tenant", "mac", desc("id"), postgresql_where=text("mac IS NOT NULL")),
        Index("task_tenant_object", "tenant", "object", desc("id"), postgresql_where=text("object IS NOT NULL")),
        Index("task_open", "sequence", postgresql_where=text("state IN ('queued', 'running')")),
        Index("task_expiry", "expires_at", postgresql_where=text("state = 'queued'")),
        Index("task_finished", "finished_at", postgresql_using="brin"),
        Index("task_dead", "tenant", desc("finished_at"), desc("id"), postgresql_where=text("state = 'dead'")),
        Index("task_redrive", "redrive_of", unique=True, postgresql_where=text("redrive_of IS NOT NULL")),
        Index(
            "task_seen",
            "tenant",
            "blob_sha256",
            desc("id"),
            postgresql_where=text("state = 'succeeded' AND blob_sha256 IS NOT NULL"),
        ),
    )
    id: UUID = Field(primary_key=True)
    tenant: str = text_(foreign_key="tenant.id")
    sequence: int = Field(
        sa_column=Column(
            BigInteger, DbSequence("task_sequence"), nullable=False, server_default=text("nextval('task_sequence')")
        )
    )
    kind: str = text_()
    lane: str = text_()
    queue: str = text_()
    mac: str | None = text_()
    object: str | None = text_()
    object_name: str | None = text_()
    """The object's name as its sender wrote it; `object` is the form that identifies it."""
    engine: str | None = text_()
    """The engine that turns the payload into text; None for what is text already."""
    state: str = text_(default="queued")
    cost: float = double_()
    created_at: datetime = time_()
    not_before: datetime | None = time_(default=False)
    expires_at: datetime = time_(default=False)
    started_at: datetime | None = time_(default=False)
    finished_at: datetime | None = time_(default=False)
    fence: int = Field(sa_type=BigInteger, sa_column_kwargs={"server_default": "0"})
    delivery: int = Field(sa_type=BigInteger, sa_column_kwargs={"server_default": "0"})
    attempts: int = Field(sa_column_kwargs={"server_default": "0"})
    runner: str | None = text_()
    cancel_requested: bool = Field(sa_column_kwargs={"server_default": text("false")})
    error_reason: str | None = text_()
    error_detail: str | None = text_()
    word_lists: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False, server_default="{}"))
    idempotency_key: str | None = text_()
    request_hash: bytes | None = Field(sa_type=LargeBinary)
    text: str | None = text_()
    blob: str | None = text_()
    blob_sha256: bytes | None = Field(sa_type=LargeBinary)
    media_type: str | None = text_()
    file_name: str | None = text_()
    data_key: str | None = text_()
    """What its text, its blob, what was read and what was matched are sealed under; None: they are plain."""
    redrive_of: UUID | None = Field(default=None, foreign_key="task.id", ondelete="SET NULL")
    """The dead letter that this task is another try at; a letter has at most one."""
    callback_url: str | None = text_()
    """Is told of its end."""
    request_id: str | None = text_()
    """Of the request that submitted it, for the audit log."""


class EngineRecord(SQLModel, table=True):
    """What an engine read (calculateEngineRecord of the original); kept, so that a retry need not read again.

    ``state`` is that of the latest start: processing, then success, failed, cancelled or interrupted (given back).
    """

    __tablename__: ClassVar[str] = "engine_record"
    task_id: UUID = Field(primary_key=True, foreign_key="task.id", ondelete="CASCADE")
    tenant: str = text_()
    state: str = text_()
    engine: str = text_(default="")
    version: str = text_(default="")
    text: str | None = text_()
    lines: list[Any] = Field(sa_column=Column(JSONB, nullable=False, server_default="[]"))
    width: int | None
    height: int | None
    seconds: float | None = double_()
    error: str | None = text_()
    created_at: datetime = time_()
    finished_at: datetime | None = time_(default=False)


class EngineCrash(SQLModel, table=True):
    """An image that has crashed this version of an engine, by its content."""

    __tablename__: ClassVar[str] = "engine_crash"
    __table_args__ = (Index("engine_crash_age", "tenant", "last_at"),)
    tenant: str = text_(primary_key=True, foreign_key="tenant.id")
    sha256: bytes = Field(sa_type=LargeBinary, primary_key=True)
    engine: str = text_(primary_key=True)
    version: str = text_()
    crashes: int
    reason: str = text_()
    last_task: UUID
    first_at: datetime = time_()
    last_at: datetime = time_()


class DetectionRow(SQLModel, table=True):
    """The judgement on a task (handlerDetectRecord of the original); ``state`` as in `EngineRecord`."""

    __tablename__: ClassVar[str] = "detection"
    __table_args__ = (Index("detection_hits", "tenant", desc("task_id"), postgresql_where=text("hit_count > 0")),)
    task_id: UUID = Field(primary_key=True, foreign_key="task.id", ondelete="CASCADE")
    tenant: str = text_()
    state: str = text_()
    fence: int = Field(sa_type=BigInteger)
    hit_count: int = Field(sa_column_kwargs={"server_default": "0"})
    top_level: int = Field(sa_column_kwargs={"server_default": "0"})
    lists: list[Any] = Field(sa_column=Column(JSONB, nullable=False, server_default="[]"))
    hits_cut: bool = Field(default=False, sa_column_kwargs={"server_default": text("false")})
    """Whether there were more hits than are kept."""
    shadow_count: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    """Hits of lists in shadow mode; ``hit_count`` and ``top_level`` are without them."""
    error: str | None = text_()
    created_at: datetime = time_()
    finished_at: datetime | None = time_(default=False)


class HitRow(SQLModel, table=True):
    """One word found in one task."""

    __tablename__: ClassVar[str] = "hit"
    __table_args__ = (
        Index("hit_task", "task_id", "start_offset"),
        Index("hit_word", "tenant", "word", desc("id")),
        Index("hit_list", "tenant", "list_id", desc("id")),
    )
    id: int = Field(sa_column=Column(BigInteger, Identity(always=True), primary_key=True))
    tenant: str = text_()
    task_id: UUID = Field(foreign_key="detection.task_id", ondelete="CASCADE")
    list_id: str = text_()
    list_version: int
    word: str = text_()
    category: str = text_()
    level: int
    start_offset: int
    end_offset: int
    matched: str = text_()
    box: Any = Field(sa_column=Column(JSONB))
    rule: str | None = text_()
    """The kind of the rule that found it; None for a word."""
    tags: list[Any] = Field(sa_column=Column(JSONB, nullable=False, server_default="[]"))
    replacement: str | None = text_()
    shadow: bool = Field(default=False, sa_column_kwargs={"server_default": FALSE})
    """Found by a list in shadow mode: nothing follows from it."""


class Report(SQLModel, table=True):
    """A detection that a device made by itself and reported (/api/decter)."""

    __table_args__ = (Index("report_tenant", "tenant", desc("id")), Index("report_mac", "tenant", "mac", desc("id")))
    tenant: str = text_(primary_key=True, foreign_key="tenant.id")
    report_id: str = text_(primary_key=True)
    id: int = Field(sa_column=Column(BigInteger, Identity(always=True), nullable=False, unique=True))
    """The order of arrival."""
    mac: str = text_()
    kind: str = text_(default="other")
    detected_at: datetime = time_()
    clock_was_wrong: bool = Field(sa_column_kwargs={"server_default": text("false")})
    """Whether the device gave a time that cannot be; then ``detected_at`` is when the report came."""
    hit_count: int = Field(sa_column_kwargs={"server_default": "0"})
    top_level: int = Field(sa_column_kwargs={"server_default": "0"})
    words: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False, server_default="{}"))
    categories: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False, server_default="{}"))
    request_hash: bytes = Field(sa_type=LargeBinary, sa_column_kwargs={"server_default": ""})
    body: Any = Field(sa_column=Column(JSONB, nullable=False))
    created_at: datetime = time_()
