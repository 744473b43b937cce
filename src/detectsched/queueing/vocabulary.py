"""What is said to the scripts, and what they answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final
from uuid import UUID

from detectsched.settings import SchedulerSettings
from detectsched.task import Delivery, Entitlement, QueuedTask, QueueId, QueueKind

MOST_PER_CALL: Final = 50
"""Tasks that one script works on: a few milliseconds, in which the server answers nobody else."""


class Enqueued(StrEnum):
    """What became of a task that was to be queued."""

    QUEUED = "QUEUED"
    DUPLICATE = "DUPLICATE"
    """It was there already; a retry after a lost reply meets this."""


class Completed(StrEnum):
    """What became of a completion."""

    DONE = "DONE"
    GONE = "GONE"
    """Forgotten already; a retry after a lost reply meets this."""
    STALE = "STALE"
    """The task is with somebody else now, or waits again."""


class Released(StrEnum):
    """What became of a task that was given back."""

    RELEASED = "RELEASED"
    GONE = "GONE"
    STALE = "STALE"


class Renewed(StrEnum):
    """What became of a lease that was to be renewed."""

    RENEWED = "RENEWED"
    CANCEL = "CANCEL"
    """Renewed, and the task was asked to stop."""
    STALE = "STALE"
    """The lease is lost: stop working and write nothing more."""


class Withdrawn(StrEnum):
    """What became of a task that PostgreSQL ended while it waited."""

    WITHDRAWN = "WITHDRAWN"
    RUNNING = "RUNNING"
    """A runner holds it; it has been told."""
    GONE = "GONE"


class Verdict(StrEnum):
    """Whether there is room for another task."""

    OK = "OK"
    SYSTEM = "SYSTEM"
    """Too much waits in all."""
    DEVICE = "DEVICE"
    """Too much of this device waits."""


@dataclass(frozen=True, slots=True)
class Admission:
    """The verdict on one request, with the counts it was judged by (tasks waiting)."""

    verdict: Verdict
    total_pending: int
    subject_pending: int


@dataclass(frozen=True, slots=True)
class Dispatched:
    """What one call of dispatch.lua did; ``more`` says that work and room are left."""

    sent: int
    expired: int
    more: bool
    outstanding: int


@dataclass(frozen=True, slots=True)
class Promoted:
    """What was due: ``next_due_seconds`` is None when nothing else waits; ``held`` tasks need PostgreSQL first."""

    count: int
    next_due_seconds: float | None
    held: tuple[Delivery, ...]


@dataclass(frozen=True, slots=True)
class GivenBack:
    """A task to be given back after ``delay_seconds``.

    ``refund`` says that nothing was run: its cost and its rate token return. ``failed`` counts against its queue.
    """

    task_id: UUID
    delivery: int
    delay_seconds: float = 0.0
    refund: bool = False
    failed: bool = False

    @property
    def why(self) -> str:
        """The word that release.lua takes."""
        return "unused" if self.refund else "failed" if self.failed else ""


class Result(StrEnum):
    """What a completed task says about its queue."""

    GOOD = "good"
    """It was examined: failures in a row end here."""
    BAD = "bad"
    """It could not be examined."""
    NONE = ""
    """Nothing: it was cancelled, or had ended before."""


@dataclass(frozen=True, slots=True)
class Taker:
    """A runner that takes the next task of a lane into the place of the one that it has completed."""

    consumer: str
    lane: str


@dataclass(frozen=True, slots=True)
class Completion:
    """A task that is terminal in PostgreSQL; ``seconds`` of work it took, where that was measured."""

    task_id: UUID
    delivery: int
    result: Result = Result.NONE
    seconds: float | None = None
    taker: Taker | None = None


@dataclass(frozen=True, slots=True)
class Succession:
    """What became of a completion, and the delivery that its taker has in hand now."""

    completed: Completed
    next: Delivery | None = None


@dataclass(frozen=True, slots=True)
class Audit:
    """Whether the counters agree, queues whose places were put right, and a key of another type ('' for none)."""

    counters_agree: bool
    repaired: int
    alien: str


@dataclass(frozen=True, slots=True)
class Backoff:
    """How queues back off: after ``threshold`` failures in a row (0: never), base × 2^(n − 1), at most the maximum."""

    threshold: int
    base_seconds: float
    max_seconds: float


@dataclass(frozen=True, slots=True)
class Deferred:
    """What was done for want of a runner."""

    queues: int
    given_up: int
    more: bool


@dataclass(frozen=True, slots=True)
class Turns:
    """How dispatch.lua cuts turns; see SchedulerSettings."""

    batch: int
    min_batch: int
    starvation_seconds: float
    order: str
    max_tasks: int = MOST_PER_CALL

    @classmethod
    def of(cls, settings: SchedulerSettings) -> Turns:
        """Return turns as the settings want them."""
        return cls(settings.batch_size, settings.min_batch_size, settings.starvation_hint_seconds, settings.order.value)


@dataclass(frozen=True, slots=True)
class Placement:
    """A task to be queued, with what its queue is entitled to.

    ``held_by`` names the runner of a task that was running when Redis lost its data: it is held for it until
    ``task.not_before_ms``.
    """

    task: QueuedTask
    entitlement: Entitlement = field(default_factory=Entitlement)
    held_by: str = ""


def subject_of(queue: QueueId) -> str:
    """Return what a queue's backlog is counted, and its pause kept, under: its device, or its object."""
    if queue.kind is QueueKind.OBJECT:
        return f"{queue.tenant}:object:{queue.rest}"
    return f"{queue.tenant}:{queue.rest.partition(':')[2]}"
