"""The tables, as alembic/versions makes them; a test compares the two."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    Double,
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

_NOW = text("now()")
_FALSE = text("false")


def _text(*, default: str | None = None, **kwargs: Any) -> Any:
    return Field(sa_type=Text, sa_column_kwargs={"server_default": default} if default is not None else {}, **kwargs)


def _time(*, default: bool = True, **kwargs: Any) -> Any:
    column = {"server_default": _NOW} if default else {}
    return Field(sa_type=DateTime(timezone=True), sa_column_kwargs=column, **kwargs)


def _double(*, server: str | None = None, **kwargs: Any) -> Any:
    return Field(sa_type=Double, sa_column_kwargs={"server_default": server} if server is not None else {}, **kwargs)


def _count() -> Any:
    return Field(sa_type=BigInteger, sa_column_kwargs={"server_default": "0"})


class Tenant(SQLModel, table=True):
    """Whose everything is."""

    __table_args__ = (
        CheckConstraint("weight > 0"),
        CheckConstraint("device_weight > 0"),
        CheckConstraint("rate >= 0"),
        CheckConstraint("burst >= 0"),
    )
    id: str = _text(primary_key=True)
    name: str = _text()
    weight: float = _double(server="1", default=1.0)
    device_weight: float = _double(server="1", default=1.0)
    """Of devices that have no weight of their own."""
    rate: float = _double(server="0", default=0.0)
    burst: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    encrypt_at_rest: bool = Field(default=False, sa_column_kwargs={"server_default": text("false")})
    """Whether new tasks are sealed under the tenant's data key."""
    created_at: datetime = _time()


class DataKeyRow(SQLModel, table=True):
    """A tenant's key for what is encrypted at rest, itself sealed under a master key of the settings."""

    __tablename__: ClassVar[str] = "data_key"
    tenant: str = _text(primary_key=True, foreign_key="tenant.id")
    id: str = _text(primary_key=True)
    sealed: bytes = Field(sa_type=LargeBinary)
    created_at: datetime = _time()


class ApiKey(SQLModel, table=True):
    """A key: its id is public, of its secret only a hash is kept."""

    __tablename__: ClassVar[str] = "api_key"
    __table_args__ = (Index("api_key_tenant", "tenant", "id"),)
    id: str = _text(primary_key=True)
    tenant: str = _text(foreign_key="tenant.id")
    name: str = _text()
    secret_hash: bytes = Field(sa_type=LargeBinary)
    scopes: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False))
    created_at: datetime = _time()
    expires_at: datetime | None = _time(default=False)
    revoked_at: datetime | None = _time(default=False)
    last_used_at: datetime | None = _time(default=False)


class EncryptionKey(SQLModel, table=True):
    """A key pair for encrypted requests; its private part is sealed under a master key of the settings."""

    __tablename__: ClassVar[str] = "encryption_key"
    tenant: str = _text(primary_key=True, foreign_key="tenant.id")
    id: str = _text(primary_key=True)
    """The kid: the thumbprint of the public part (RFC 7638)."""
    algorithm: str = _text()
    public_key: Any = Field(sa_column=Column(JSONB, nullable=False))
    """As a JWK."""
    sealed: bytes = Field(sa_type=LargeBinary)
    created_at: datetime = _time()
    retired_at: datetime | None = _time(default=False)


class Device(SQLModel, table=True):
    """A device that has submitted something, and what its queue is entitled to."""

    __table_args__ = (
        CheckConstraint("weight > 0"),
        CheckConstraint("in_flight >= 0"),
        CheckConstraint("rate >= 0"),
        CheckConstraint("burst >= 0"),
    )
    tenant: str = _text(primary_key=True, foreign_key="tenant.id")
    mac: str = _text(primary_key=True)
    name: str = _text(default="")
    weight: float | None = _double(default=None)
    """None: the tenant's device_weight."""
    in_flight: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    rate: float = _double(server="0", default=0.0)
    burst: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    first_seen_at: datetime = _time()
    last_seen_at: datetime = _time()


class Pause(SQLModel, table=True):
    """Something that is paused: ``lane:<lane>``, ``tenant:<tenant>``, ``subject:<subject>`` or ``runner:<name>``."""

    what: str = _text(primary_key=True)
    tenant: str | None = _text()
    """Whose it is; None for what belongs to the platform."""
    reason: str = _text(default="")
    paused_by: str = _text()
    paused_at: datetime = _time()


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
    tenant: str = _text(foreign_key="tenant.id")
    sequence: int = Field(
        sa_column=Column(
            BigInteger, DbSequence("task_sequence"), nullable=False, server_default=text("nextval('task_sequence')")
        )
    )
    kind: str = _text()
    lane: str = _text()
    queue: str = _text()
    mac: str | None = _text()
    object: str | None = _text()
    object_name: str | None = _text()
    """The object's name as its sender wrote it; `object` is the form that identifies it."""
    engine: str | None = _text()
    """The engine that turns the payload into text; None for what is text already."""
    state: str = _text(default="queued")
    cost: float = _double()
    created_at: datetime = _time()
    not_before: datetime | None = _time(default=False)
    expires_at: datetime = _time(default=False)
    started_at: datetime | None = _time(default=False)
    finished_at: datetime | None = _time(default=False)
    fence: int = Field(sa_type=BigInteger, sa_column_kwargs={"server_default": "0"})
    delivery: int = Field(sa_type=BigInteger, sa_column_kwargs={"server_default": "0"})
    attempts: int = Field(sa_column_kwargs={"server_default": "0"})
    runner: str | None = _text()
    cancel_requested: bool = Field(sa_column_kwargs={"server_default": text("false")})
    error_reason: str | None = _text()
    error_detail: str | None = _text()
    word_lists: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False, server_default="{}"))
    idempotency_key: str | None = _text()
    request_hash: bytes | None = Field(sa_type=LargeBinary)
    text: str | None = _text()
    blob: str | None = _text()
    blob_sha256: bytes | None = Field(sa_type=LargeBinary)
    media_type: str | None = _text()
    file_name: str | None = _text()
    data_key: str | None = _text()
    """What its text, its blob, what was read and what was matched are sealed under; None: they are plain."""
    redrive_of: UUID | None = Field(default=None, foreign_key="task.id", ondelete="SET NULL")
    """The dead letter that this task is another try at; a letter has at most one."""
    callback_url: str | None = _text()
    """Is told of its end."""
    request_id: str | None = _text()
    """Of the request that submitted it, for the audit log."""


class ObjectRow(SQLModel, table=True):
    """What is set for an object; one without a row has the tenant's defaults."""

    __tablename__: ClassVar[str] = "object"
    tenant: str = _text(primary_key=True, foreign_key="tenant.id")
    name: str = _text(primary_key=True)
    word_lists: list[str] | None = Field(default=None, sa_column=Column(ARRAY(Text)))
    """The lists that judge its tasks where these name none; None: the tenant's default lists."""


class EngineRecord(SQLModel, table=True):
    """What an engine read (calculateEngineRecord of the original); kept, so that a retry need not read again.

    ``state`` is that of the latest start: processing, then success, failed, cancelled or interrupted (given back).
    """

    __tablename__: ClassVar[str] = "engine_record"
    task_id: UUID = Field(primary_key=True, foreign_key="task.id", ondelete="CASCADE")
    tenant: str = _text()
    state: str = _text()
    engine: str = _text(default="")
    version: str = _text(default="")
    text: str | None = _text()
    lines: list[Any] = Field(sa_column=Column(JSONB, nullable=False, server_default="[]"))
    width: int | None
    height: int | None
    seconds: float | None = _double()
    error: str | None = _text()
    created_at: datetime = _time()
    finished_at: datetime | None = _time(default=False)


class EngineCrash(SQLModel, table=True):
    """An image that has crashed this version of an engine, by its content."""

    __tablename__: ClassVar[str] = "engine_crash"
    __table_args__ = (Index("engine_crash_age", "tenant", "last_at"),)
    tenant: str = _text(primary_key=True, foreign_key="tenant.id")
    sha256: bytes = Field(sa_type=LargeBinary, primary_key=True)
    engine: str = _text(primary_key=True)
    version: str = _text()
    crashes: int
    reason: str = _text()
    last_task: UUID
    first_at: datetime = _time()
    last_at: datetime = _time()


class DetectionRow(SQLModel, table=True):
    """The judgement on a task (handlerDetectRecord of the original); ``state`` as in `EngineRecord`."""

    __tablename__: ClassVar[str] = "detection"
    __table_args__ = (Index("detection_hits", "tenant", desc("task_id"), postgresql_where=text("hit_count > 0")),)
    task_id: UUID = Field(primary_key=True, foreign_key="task.id", ondelete="CASCADE")
    tenant: str = _text()
    state: str = _text()
    fence: int = Field(sa_type=BigInteger)
    hit_count: int = Field(sa_column_kwargs={"server_default": "0"})
    top_level: int = Field(sa_column_kwargs={"server_default": "0"})
    lists: list[Any] = Field(sa_column=Column(JSONB, nullable=False, server_default="[]"))
    hits_cut: bool = Field(default=False, sa_column_kwargs={"server_default": text("false")})
    """Whether there were more hits than are kept."""
    shadow_count: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    """Hits of lists in shadow mode; ``hit_count`` and ``top_level`` are without them."""
    error: str | None = _text()
    created_at: datetime = _time()
    finished_at: datetime | None = _time(default=False)


class HitRow(SQLModel, table=True):
    """One word found in one task."""

    __tablename__: ClassVar[str] = "hit"
    __table_args__ = (
        Index("hit_task", "task_id", "start_offset"),
        Index("hit_word", "tenant", "word", desc("id")),
        Index("hit_list", "tenant", "list_id", desc("id")),
    )
    id: int = Field(sa_column=Column(BigInteger, Identity(always=True), primary_key=True))
    tenant: str = _text()
    task_id: UUID = Field(foreign_key="detection.task_id", ondelete="CASCADE")
    list_id: str = _text()
    list_version: int
    word: str = _text()
    category: str = _text()
    level: int
    start_offset: int
    end_offset: int
    matched: str = _text()
    box: Any = Field(sa_column=Column(JSONB))
    rule: str | None = _text()
    """The kind of the rule that found it; None for a word."""
    tags: list[Any] = Field(sa_column=Column(JSONB, nullable=False, server_default="[]"))
    replacement: str | None = _text()
    shadow: bool = Field(default=False, sa_column_kwargs={"server_default": _FALSE})
    """Found by a list in shadow mode: nothing follows from it."""


class Report(SQLModel, table=True):
    """A detection that a device made by itself and reported (/api/decter)."""

    __table_args__ = (Index("report_tenant", "tenant", desc("id")), Index("report_mac", "tenant", "mac", desc("id")))
    tenant: str = _text(primary_key=True, foreign_key="tenant.id")
    report_id: str = _text(primary_key=True)
    id: int = Field(sa_column=Column(BigInteger, Identity(always=True), nullable=False, unique=True))
    """The order of arrival."""
    mac: str = _text()
    kind: str = _text(default="other")
    detected_at: datetime = _time()
    clock_was_wrong: bool = Field(sa_column_kwargs={"server_default": text("false")})
    """Whether the device gave a time that cannot be; then ``detected_at`` is when the report came."""
    hit_count: int = Field(sa_column_kwargs={"server_default": "0"})
    top_level: int = Field(sa_column_kwargs={"server_default": "0"})
    words: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False, server_default="{}"))
    categories: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False, server_default="{}"))
    request_hash: bytes = Field(sa_type=LargeBinary, sa_column_kwargs={"server_default": ""})
    body: Any = Field(sa_column=Column(JSONB, nullable=False))
    created_at: datetime = _time()


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
    tenant: str = _text(foreign_key="tenant.id")
    task_id: UUID | None = Field(foreign_key="task.id", ondelete="SET NULL")
    mac: str | None = _text()
    object: str | None = _text()
    kind: str = _text()
    policy: str = _text(default="")
    level: int = Field(sa_column_kwargs={"server_default": "0"})
    body: Any = Field(sa_column=Column(JSONB, nullable=False, server_default="{}"))
    state: str = _text(default="pending")
    created_at: datetime = _time()
    done_at: datetime | None = _time(default=False)


class CommandPolicyRow(SQLModel, table=True):
    """Which command follows which hits."""

    __tablename__: ClassVar[str] = "command_policy"
    tenant: str = _text(primary_key=True, foreign_key="tenant.id")
    id: str = _text(primary_key=True)
    kind: str = _text()
    min_level: int = Field(sa_column_kwargs={"server_default": "1"})
    max_level: int | None
    categories: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False, server_default="{}"))
    message: str = _text(default="")
    payload: Any = Field(sa_column=Column(JSONB, nullable=False, server_default="{}"))
    enabled: bool = Field(sa_column_kwargs={"server_default": text("true")})
    created_at: datetime = _time()
    updated_at: datetime = _time()


class Webhook(SQLModel, table=True):
    """An address of a tenant that is told of events."""

    __table_args__ = (Index("webhook_tenant", "tenant", "id"),)
    id: UUID = Field(primary_key=True)
    tenant: str = _text(foreign_key="tenant.id")
    url: str = _text()
    events: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False))
    enabled: bool = Field(sa_column_kwargs={"server_default": text("true")})
    disabled_reason: str | None = _text()
    created_at: datetime = _time()


class WebhookSecret(SQLModel, table=True):
    """What signs the messages of a webhook, or (without one) of the tenant's callbacks; an old one until it retires."""

    __tablename__: ClassVar[str] = "webhook_secret"
    __table_args__ = (Index("webhook_secret_owner", "tenant", "webhook_id"),)
    id: int = Field(sa_column=Column(BigInteger, Identity(always=True), primary_key=True))
    tenant: str = _text(foreign_key="tenant.id")
    webhook_id: UUID | None = Field(foreign_key="webhook.id", ondelete="CASCADE")
    secret: str = _text()
    created_at: datetime = _time()
    retires_at: datetime | None = _time(default=False)


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
    tenant: str = _text(foreign_key="tenant.id")
    channel: str = _text()
    """What shares a limit of concurrent requests: a webhook's id, or ``callback/<tenant>/<host>``."""
    webhook_id: UUID | None = Field(foreign_key="webhook.id", ondelete="CASCADE")
    url: str | None = _text()
    """Of a callback; a webhook has its own."""
    task_id: UUID | None = Field(foreign_key="task.id", ondelete="SET NULL")
    event: str = _text()
    body: Any = Field(sa_column=Column(JSONB, nullable=False))
    state: str = _text(default="pending")
    attempts: int = Field(sa_column_kwargs={"server_default": "0"})
    """Claims since it was written, or driven again."""
    created_at: datetime = _time()
    queued_at: datetime = _time()
    """When it was written, or driven again: its age counts from here."""
    next_at: datetime = _time()
    """When it is due; while it is being sent, when its claim runs out, which is also the claim's fence."""
    done_at: datetime | None = _time(default=False)
    last_status: int | None
    last_error: str | None = _text()


class WebhookTotal(SQLModel, table=True):
    """How many sends ended how, ever."""

    __tablename__: ClassVar[str] = "webhook_total"
    outcome: str = _text(primary_key=True)
    count: int = Field(sa_type=BigInteger, sa_column_kwargs={"server_default": "0"})


class AuditLog(SQLModel, table=True):
    """Who did what to what (write_log of the original); only ever appended to."""

    __tablename__: ClassVar[str] = "audit_log"
    __table_args__ = (
        Index("audit_log_tenant", "tenant", desc("at"), desc("id")),
        Index("audit_log_subject", "tenant", "subject", desc("at"), desc("id")),
    )
    id: int | None = Field(default=None, sa_column=Column(BigInteger, Identity(always=True), primary_key=True))
    tenant: str = _text()
    at: datetime = _time()
    actor: str = _text()
    action: str = _text()
    subject: str = _text()
    outcome: str = _text()
    request_id: str | None = _text()
    detail: Any = Field(sa_column=Column(JSONB, nullable=False, server_default="{}"))


class WordList(SQLModel, table=True):
    """A list of words; the default lists of a tenant judge every task that names none."""

    __tablename__: ClassVar[str] = "word_list"
    tenant: str = _text(primary_key=True, foreign_key="tenant.id")
    id: str = _text(primary_key=True)
    name: str = _text()
    is_default: bool = Field(sa_column_kwargs={"server_default": text("true")})
    current_version: int = Field(sa_column_kwargs={"server_default": "0"})
    """0: it has only a draft."""
    created_at: datetime = _time()
    deleted_at: datetime | None = _time(default=False)
    """Nothing new is judged by it; its versions stay, for what was, and for the tasks that name it."""


class WordListVersion(SQLModel, table=True):
    """One published state of a list; never changed afterwards."""

    __tablename__: ClassVar[str] = "word_list_version"
    __table_args__ = (
        CheckConstraint("version > 0"),
        ForeignKeyConstraint(["tenant", "list_id"], ["word_list.tenant", "word_list.id"], ondelete="CASCADE"),
    )
    tenant: str = _text(primary_key=True)
    list_id: str = _text(primary_key=True)
    version: int = Field(primary_key=True)
    word_count: int
    published_at: datetime = _time()
    published_by: str = _text(default="")
    options: Any = Field(sa_column=Column(JSONB, nullable=False, server_default="{}"))
    """How it is matched; what is absent is as `ListOptions` has it."""
    restores: int | None
    """The earlier version that it repeats, where it is a rollback."""


class WordListDraft(SQLModel, table=True):
    """What is to become the next version of a list; nothing is judged by it."""

    __tablename__: ClassVar[str] = "word_list_draft"
    __table_args__ = (
        ForeignKeyConstraint(["tenant", "list_id"], ["word_list.tenant", "word_list.id"], ondelete="CASCADE"),
    )
    tenant: str = _text(primary_key=True)
    list_id: str = _text(primary_key=True)
    name: str = _text()
    is_default: bool
    options: Any = Field(sa_column=Column(JSONB, nullable=False))
    base_version: int
    """The version that was current when it was begun."""
    revision: int
    """Counts its changes."""
    word_count: int
    updated_at: datetime = _time()
    updated_by: str = _text()


class DraftWordRow(SQLModel, table=True):
    """One word of a draft."""

    __tablename__: ClassVar[str] = "draft_word"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant", "list_id"], ["word_list_draft.tenant", "word_list_draft.list_id"], ondelete="CASCADE"
        ),
    )
    tenant: str = _text(primary_key=True)
    list_id: str = _text(primary_key=True)
    text: str = _text(primary_key=True)
    allow: bool = Field(primary_key=True)
    position: int
    """Their order, with gaps."""
    category: str = _text()
    level: int
    mode: str | None = _text()
    tags: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False))
    replacement: str | None = _text()


class WordRow(SQLModel, table=True):
    """One word of one version of one list."""

    __tablename__: ClassVar[str] = "word"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant", "list_id", "version"],
            ["word_list_version.tenant", "word_list_version.list_id", "word_list_version.version"],
            ondelete="CASCADE",
        ),
    )
    tenant: str = _text(primary_key=True)
    list_id: str = _text(primary_key=True)
    version: int = Field(primary_key=True)
    position: int = Field(primary_key=True)
    text: str = _text()
    category: str = _text()
    level: int
    mode: str | None = _text()
    """None: the list's."""
    allow: bool = Field(default=False, sa_column_kwargs={"server_default": _FALSE})
    tags: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False, server_default="{}"))
    replacement: str | None = _text()


class _Measured(SQLModel):
    """How many tasks ended, and how long those waited and ran that their runner ended (``timed`` of them)."""

    tasks: int = _count()
    with_hits: int = _count()
    hits: int = _count()
    timed: int = _count()
    wait_us: int = _count()
    run_us: int = _count()
    waits: list[int] = Field(sa_type=ARRAY(BigInteger), sa_column_kwargs={"server_default": "{}"})
    """A histogram, as of db/histogram.py."""
    runs: list[int] = Field(sa_type=ARRAY(BigInteger), sa_column_kwargs={"server_default": "{}"})


class StatHourly(_Measured, table=True):
    """What ended within an hour; a detection that a device reported has the state ``reported`` and no lane ('')."""

    __tablename__: ClassVar[str] = "stat_hourly"
    tenant: str = _text(primary_key=True)
    hour: datetime = _time(default=False, primary_key=True)
    lane: str = _text(primary_key=True)
    state: str = _text(primary_key=True)


class StatDevice(_Measured, table=True):
    """The same by device; what belongs to none has the address ''."""

    __tablename__: ClassVar[str] = "stat_device"
    __table_args__ = (Index("stat_device_mac", "tenant", "mac", "hour"),)
    tenant: str = _text(primary_key=True)
    hour: datetime = _time(default=False, primary_key=True)
    mac: str = _text(primary_key=True)
    lane: str = _text(primary_key=True)
    state: str = _text(primary_key=True)


class StatWord(SQLModel, table=True):
    """How often a word was found within an hour; the word '' stands for all of a category together."""

    __tablename__: ClassVar[str] = "stat_word"
    tenant: str = _text(primary_key=True)
    hour: datetime = _time(default=False, primary_key=True)
    category: str = _text(primary_key=True)
    word: str = _text(primary_key=True)
    lane: str = _text(primary_key=True)
    tasks: int = _count()
    hits: int = _count()


class StatRemoved(SQLModel, table=True):
    """Ended tasks that were removed since: their hour cannot be counted again."""

    __tablename__: ClassVar[str] = "stat_removed"
    tenant: str = _text(primary_key=True)
    hour: datetime = _time(default=False, primary_key=True)
    tasks: int = Field(sa_type=BigInteger)


class StatDue(SQLModel, table=True):
    """A task that has ended, or a report, and is not counted yet."""

    __tablename__: ClassVar[str] = "stat_due"
    id: int = Field(sa_column=Column(BigInteger, Identity(always=True), primary_key=True))
    task_id: UUID | None
    report_id: int | None = Field(sa_type=BigInteger)
