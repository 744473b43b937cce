"""One start of a task: what a runner is given, and what it hands back."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from detectsched.detection import Detection, EngineResult, ListVersion
from detectsched.errors import SealBroken
from detectsched.sealing import Seal
from detectsched.task import Delivery, TaskError, TaskKind, TaskState


@dataclass(frozen=True, slots=True)
class Started:
    """A task that is now running under ``fence``: everything that a runner needs to examine it.

    ``engine`` turns ``blob`` into text; None for what is text already. ``lists`` are the versions current at this
    moment; ``read`` is what an engine read in an earlier try. Of a task that is encrypted at rest, ``seal`` opens the
    blob and is to seal the result; ``broken`` says that its text cannot be opened here.
    """

    delivery: Delivery
    tenant: str
    kind: TaskKind
    engine: str | None
    fence: int
    attempts: int
    text: str | None
    blob: str | None
    blob_sha256: bytes | None
    media_type: str | None
    lists: tuple[ListVersion, ...]
    read: EngineResult | None = None
    seal: Seal | None = None
    broken: SealBroken | None = None


class Refused(StrEnum):
    """Why a delivery was not started."""

    ENDED = "ended"
    """The task is terminal already: only Redis has to forget it."""
    STALE = "stale"
    """A newer delivery of it is running: this one is to be dropped without a word."""
    UNKNOWN = "unknown"
    """A newer release has accepted it and this one does not know its kind: it is left to runners that do."""


@dataclass(frozen=True, slots=True)
class EngineRead:
    """An engine's result, to be kept for a retry."""

    task_id: UUID
    tenant: str
    fence: int
    result: EngineResult
    seal: Seal | None = None


@dataclass(frozen=True, slots=True)
class Ending:
    """How one start of a task ends: a terminal state, or QUEUED to be tried or started again.

    ``spends_attempt`` says that the try counts against MAX_ATTEMPTS; a delivery given back costs none.
    """

    task_id: UUID
    tenant: str
    fence: int
    state: TaskState
    spends_attempt: bool = False
    error: TaskError | None = None
    detection: Detection | None = None
    seal: Seal | None = None
