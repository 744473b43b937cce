"""How a try at a task ended, and what follows from it: pure decisions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from detectsched.attempt import Ending, Started
from detectsched.detection import Detection
from detectsched.errors import (
    EngineFailed,
    EngineUnavailable,
    PayloadRejected,
    PoisonImage,
    SealBroken,
    StoreUnavailable,
    TaskFailed,
)
from detectsched.settings import SchedulerSettings
from detectsched.task import TaskError, TaskState


class Verdict(StrEnum):
    """What is to be done with a task after a try."""

    SUCCEEDED = "succeeded"
    """Examined: the detection is stored."""
    FAILED = "failed"
    """It can never be examined: no other try."""
    RETRY = "retry"
    """It went wrong this time: another try after a back-off."""
    DEAD = "dead"
    """It went wrong as often as it may."""
    GIVEN_BACK = "given_back"
    """Not its fault (stop, store or engine away): another start, no attempt spent."""
    CANCELLED = "cancelled"
    """Its tenant withdrew it while it ran."""
    LOST = "lost"
    """The lease is gone: nothing may be written."""


class Stop(StrEnum):
    """Why a try was interrupted from outside; from the weakest reason to the strongest."""

    CANCEL = "cancel"
    """The tenant asked for it."""
    SHUTDOWN = "shutdown"
    """The runner stops, and the grace is over."""
    LEASE_LOST = "lease_lost"
    """The lease could not be renewed, or belongs to somebody else."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A verdict, with the error for people and the delay before another try."""

    verdict: Verdict
    error: TaskError | None = None
    delay_seconds: float = 0.0


_STOPPED = {
    Stop.CANCEL: Outcome(Verdict.CANCELLED),
    Stop.SHUTDOWN: Outcome(Verdict.GIVEN_BACK),
    Stop.LEASE_LOST: Outcome(Verdict.LOST),
}

_STATES = {
    Verdict.SUCCEEDED: TaskState.SUCCEEDED,
    Verdict.FAILED: TaskState.FAILED,
    Verdict.RETRY: TaskState.QUEUED,
    Verdict.DEAD: TaskState.DEAD,
    Verdict.GIVEN_BACK: TaskState.QUEUED,
    Verdict.CANCELLED: TaskState.CANCELLED,
}


def backoff_seconds(failures: int, settings: SchedulerSettings) -> float:
    """Return base × 2^(failures − 1), at most the maximum: the original's curve, 30, 60, 120 … 600 s."""
    return float(min(settings.backoff_base_seconds * 2.0 ** min(failures - 1, 60), settings.backoff_max_seconds))


def outcome_of(
    error: BaseException | None,
    *,
    stop: Stop | None,
    attempts: int,
    settings: SchedulerSettings,
    confidential: bool = False,
) -> Outcome:
    """Judge a try that raised ``error`` (None: it went through); ``attempts`` counts the failed tries before it.

    Of a ``confidential`` task no words of an engine or of a bug are kept: they may quote it.
    """
    if error is None:
        return Outcome(Verdict.SUCCEEDED)
    if stop is not None:
        return _STOPPED[stop]
    if isinstance(error, PayloadRejected):
        return Outcome(Verdict.FAILED, TaskError(error.reason, error.detail))
    if isinstance(error, StoreUnavailable):
        return Outcome(Verdict.GIVEN_BACK, delay_seconds=min(1.0, settings.backoff_base_seconds))
    described = _describe(error, confidential=confidential)
    if isinstance(error, EngineUnavailable):
        # Said on the task: it may come back like this until it expires, and its sender would not know why.
        return Outcome(Verdict.GIVEN_BACK, described, settings.backoff_base_seconds)
    return _after_a_failure(error, described, attempts, settings)


def _after_a_failure(error: BaseException, failure: TaskError, attempts: int, settings: SchedulerSettings) -> Outcome:
    if attempts + 1 < settings.max_attempts and not isinstance(error, PoisonImage):
        return Outcome(Verdict.RETRY, failure, backoff_seconds(attempts + 1, settings))
    if failure.reason == "out_of_memory":
        # Every try has climbed the whole ladder, at different times: it is the image, not the hour.
        return Outcome(Verdict.FAILED, TaskError("too_large", f"no try had memory enough for it: {failure.detail}"))
    return Outcome(Verdict.DEAD, failure)


def _describe(error: BaseException, *, confidential: bool) -> TaskError:
    if isinstance(error, SealBroken):
        return TaskError("sealed", error.detail)
    if confidential and not isinstance(error, TimeoutError):
        reason = error.reason if isinstance(error, TaskFailed) else "internal"
        return TaskError(reason, f"{type(error).__name__}; its words are withheld, since the task is encrypted at rest")
    if isinstance(error, EngineFailed | TaskFailed):
        return TaskError(error.reason, error.detail)
    if isinstance(error, TimeoutError):
        return TaskError("timeout", "the task ran longer than it may")
    return TaskError("internal", f"{type(error).__name__}: {error}")


def ending_of(started: Started, outcome: Outcome, detection: Detection | None) -> Ending:
    """Return what is to be written for a verdict other than LOST."""
    return Ending(
        task_id=started.delivery.task_id,
        tenant=started.tenant,
        fence=started.fence,
        state=_STATES[outcome.verdict],
        spends_attempt=outcome.verdict in {Verdict.RETRY, Verdict.DEAD},
        error=outcome.error,
        detection=detection if outcome.verdict is Verdict.SUCCEEDED else None,
        seal=started.seal,
    )
