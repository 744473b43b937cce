"""The vocabulary of tasks: what is submitted, where it waits, how it ends."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

import uuid_utils.compat as uuid_utils

from detectsched.errors import InvalidRequest

LANE_OCR: Final = "ocr"
LANE_TEXT: Final = "text"
ENGINE_OCR: Final = "ocr"
DEFAULT_TENANT: Final = "default"

MAX_OBJECT_NAME: Final = 200
"""Longest object name, in characters; it becomes part of Redis keys."""


class TaskKind(StrEnum):
    """What is to be examined."""

    IMAGE = "image"
    """An image: read by an OCR engine, then its text is matched."""
    TEXT = "text"
    """A text: matched as it is."""
    CALCULATE = "calculate"
    """Anything else: a named engine makes text of it, which is matched."""


class TaskState(StrEnum):
    """Where a task stands in PostgreSQL; the last five are terminal and never change."""

    QUEUED = "queued"
    """Accepted; waits in its queue, in a back-off or in a lane's stream."""
    RUNNING = "running"
    """A runner has started it under a fence."""
    SUCCEEDED = "succeeded"
    """Examined; the detection and its hits are stored."""
    FAILED = "failed"
    """Can never be examined (undecodable image); the error says why."""
    DEAD = "dead"
    """Given up after MAX_ATTEMPTS; a dead letter."""
    EXPIRED = "expired"
    """Its time to live passed before it was started."""
    CANCELLED = "cancelled"
    """Withdrawn by its tenant."""


TERMINAL_STATES: Final = frozenset(
    {TaskState.SUCCEEDED, TaskState.FAILED, TaskState.DEAD, TaskState.EXPIRED, TaskState.CANCELLED}
)


class QueueKind(StrEnum):
    """What a queue belongs to."""

    MAC = "mac"
    """A device in one lane; any number of its tasks may run at once."""
    OBJECT = "object"
    """A named subject over all lanes; one task at a time, in order."""


@dataclass(frozen=True, slots=True)
class QueueId:
    """Names one queue: ``mac:<tenant>:<lane>:<mac>`` or ``object:<tenant>:<object name>``.

    The string form is used in Redis keys and in the ``queue`` column; a tenant id holds no colon, so the kind and the
    tenant can be read back by splitting at the first two.
    """

    kind: QueueKind
    tenant: str
    rest: str

    @classmethod
    def of_device(cls, tenant: str, lane: str, mac: str) -> QueueId:
        """Return the queue of a device in a lane; ``mac`` is in the form `normalise_mac` gives."""
        return cls(QueueKind.MAC, tenant, f"{lane}:{mac}")

    @classmethod
    def of_object(cls, tenant: str, name: str) -> QueueId:
        """Return the queue of an object; ``name`` is in the form `normalise_object` gives."""
        return cls(QueueKind.OBJECT, tenant, name)

    @classmethod
    def parse(cls, text: str) -> QueueId:
        """Return the queue that a string form names."""
        kind, tenant, rest = text.split(":", 2)
        return cls(QueueKind(kind), tenant, rest)

    def __str__(self) -> str:
        return f"{self.kind.value}:{self.tenant}:{self.rest}"


@dataclass(frozen=True, slots=True)
class QueuedTask:
    """All that the queue needs to know of a task; everything else stays in PostgreSQL.

    ``sequence`` orders the tasks of a queue, ``cost`` is in standard tasks (one ordinary text or one megapixel of OCR),
    ``expires_ms`` and ``not_before_ms`` are milliseconds since the epoch (0: now), ``delivery`` is the last delivery
    number known to PostgreSQL and ``attempts`` the failed tries so far.
    """

    id: UUID
    queue: QueueId
    lane: str
    sequence: int
    cost: float
    created_ms: int
    expires_ms: int
    not_before_ms: int = 0
    delivery: int = 0
    attempts: int = 0
    mac: str | None = None


@dataclass(frozen=True, slots=True)
class Entitlement:
    """What a queue and its tenant may have.

    ``limit``: most tasks of the queue in flight (0: no limit). ``weight``: share relative to its neighbours. ``rate``:
    tasks started per second (0: no limit), at most ``burst`` at once. The tenant's weight and rate hold for all its
    queues together.
    """

    limit: int = 0
    weight: float = 1.0
    rate: float = 0.0
    burst: int = 0
    tenant_weight: float = 1.0
    tenant_rate: float = 0.0
    tenant_burst: int = 0

    def with_default_limit(self, limit: int) -> Entitlement:
        """Return the same with this in-flight limit where there is none of its own."""
        return self if self.limit or not limit else replace(self, limit=limit)


@dataclass(frozen=True, slots=True)
class LaneBacklog:
    """How much of a lane may start now and has not (``waiting``), and how much runs; cost is in standard tasks."""

    waiting: int = 0
    waiting_cost: float = 0.0
    running: int = 0
    running_cost: float = 0.0
    oldest_wait_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Delivery:
    """One handing-over of a task to a runner; (task_id, number) is what every later word to Redis names."""

    task_id: UUID
    number: int
    lane: str
    entry_id: str


_MAC = re.compile(r"(?:[0-9a-f]{2}([:-]))(?:[0-9a-f]{2}\1){4}[0-9a-f]{2}|[0-9a-f]{12}|(?:[0-9a-f]{4}\.){2}[0-9a-f]{4}")
_SEPARATORS = str.maketrans("", "", ":-.")


def normalise_mac(text: str) -> str:
    """Return a MAC address as ``aa:bb:cc:dd:ee:ff``.

    Takes every usual spelling: upper or lower case, ``AA:BB:…``, ``AA-BB-…``, ``AABB.CCDD.EEFF`` and twelve bare
    digits, with white space around it.

    Raises:
        InvalidRequest: anything else, the group addresses ``ff:ff:…`` and ``00:00:…`` included (no device has one).
    """
    candidate = text.strip().lower()
    if not _MAC.fullmatch(candidate):
        raise InvalidRequest(
            f"{text[:64]!r} is not a MAC address; write it as AA:BB:CC:DD:EE:FF, AA-BB-CC-DD-EE-FF, AABB.CCDD.EEFF or "
            "AABBCCDDEEFF",
            field="mac",
        )
    digits = candidate.translate(_SEPARATORS)
    if digits in {"0" * 12, "f" * 12}:
        raise InvalidRequest(f"{text[:64]!r} names no single device", field="mac")
    return ":".join(digits[i : i + 2] for i in range(0, 12, 2))


def normalise_object(name: str) -> str:
    """Return an object's name in the form that identifies it: NFKC, case-folded, single spaces, trimmed.

    Raises:
        InvalidRequest: empty, longer than `MAX_OBJECT_NAME` characters, or with control characters.
    """
    folded = " ".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold()).split())
    if not folded:
        raise InvalidRequest("the object's name is empty", field="object")
    if len(folded) > MAX_OBJECT_NAME:
        raise InvalidRequest(f"the object's name is longer than {MAX_OBJECT_NAME} characters", field="object")
    if any(unicodedata.category(character) in {"Cc", "Cs"} for character in folded):
        raise InvalidRequest("the object's name contains control characters", field="object")
    return folded


def new_task_id() -> UUID:
    """Return a UUIDv7: unique, ordered by creation time, and leaking no count."""
    return uuid_utils.uuid7()


@dataclass(frozen=True, slots=True)
class TaskError:
    """Why a task did not succeed: a stable word for programs and a sentence for people."""

    reason: str
    detail: str
    at: datetime | None = None
