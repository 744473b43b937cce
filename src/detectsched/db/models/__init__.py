"""The tables, as alembic/versions makes them; a test compares the two."""

from __future__ import annotations

from detectsched.db.models.outbox import (
    AuditLog,
    Command,
    CommandPolicyRow,
    Webhook,
    WebhookDelivery,
    WebhookSecret,
    WebhookTotal,
)
from detectsched.db.models.statistics import StatDevice, StatDue, StatHourly, StatRemoved, StatWord
from detectsched.db.models.tasks import DetectionRow, EngineCrash, EngineRecord, HitRow, Report, Task
from detectsched.db.models.tenants import ApiKey, DataKeyRow, Device, EncryptionKey, ObjectRow, Pause, Tenant
from detectsched.db.models.words import DraftWordRow, WordList, WordListDraft, WordListVersion, WordRow

__all__ = [
    "ApiKey",
    "AuditLog",
    "Command",
    "CommandPolicyRow",
    "DataKeyRow",
    "DetectionRow",
    "Device",
    "DraftWordRow",
    "EncryptionKey",
    "EngineCrash",
    "EngineRecord",
    "HitRow",
    "ObjectRow",
    "Pause",
    "Report",
    "StatDevice",
    "StatDue",
    "StatHourly",
    "StatRemoved",
    "StatWord",
    "Task",
    "Tenant",
    "Webhook",
    "WebhookDelivery",
    "WebhookSecret",
    "WebhookTotal",
    "WordList",
    "WordListDraft",
    "WordListVersion",
    "WordRow",
]
