"""What follows from a try: pure decisions."""

from __future__ import annotations

import asyncio

import pytest

from detectsched.errors import (
    BlobMissing,
    EngineFailed,
    EngineUnavailable,
    PayloadRejected,
    PoisonImage,
    StoreUnavailable,
)
from detectsched.runner.outcome import Stop, Verdict, backoff_seconds, outcome_of
from detectsched.settings import SchedulerSettings

SETTINGS = SchedulerSettings()


@pytest.mark.parametrize(
    ("failures", "seconds"), [(1, 30), (2, 60), (3, 120), (4, 240), (5, 480), (6, 600), (7, 600), (10_000, 600)]
)
def test_back_off_follows_the_originals_curve(failures: int, seconds: float) -> None:
    """30 s, doubled by each failure, at most 600 s."""
    assert backoff_seconds(failures, SETTINGS) == seconds


@pytest.mark.parametrize(
    ("error", "attempts", "verdict", "reason"),
    [
        (None, 0, Verdict.SUCCEEDED, None),
        (PayloadRejected("undecodable_image", "cut off"), 0, Verdict.FAILED, "undecodable_image"),
        (BlobMissing("gone"), 0, Verdict.FAILED, "blob_missing"),
        (EngineFailed("engine_crashed", "signal 11"), 0, Verdict.RETRY, "engine_crashed"),
        (EngineFailed("engine_crashed", "signal 11"), 1, Verdict.RETRY, "engine_crashed"),
        (EngineFailed("engine_crashed", "signal 11"), 2, Verdict.DEAD, "engine_crashed"),
        (EngineFailed("out_of_memory", "on every rung"), 1, Verdict.RETRY, "out_of_memory"),
        (EngineFailed("out_of_memory", "on every rung"), 2, Verdict.FAILED, "too_large"),
        (EngineUnavailable("none starts"), 2, Verdict.GIVEN_BACK, "engine_unavailable"),
        (PoisonImage("again"), 0, Verdict.DEAD, "poison"),
        (TimeoutError(), 0, Verdict.RETRY, "timeout"),
        (RuntimeError("a bug"), 2, Verdict.DEAD, "internal"),
        (StoreUnavailable("away"), 2, Verdict.GIVEN_BACK, None),
    ],
)
def test_each_failure_has_its_verdict(
    error: Exception | None, attempts: int, verdict: Verdict, reason: str | None
) -> None:
    """Bad payloads fail at once, engines get MAX_ATTEMPTS, a store or an engine that is away costs none."""
    outcome = outcome_of(error, stop=None, attempts=attempts, settings=SETTINGS)
    assert outcome.verdict is verdict
    assert (outcome.error.reason if outcome.error else None) == reason


@pytest.mark.parametrize(
    ("stop", "verdict"),
    [(Stop.CANCEL, Verdict.CANCELLED), (Stop.SHUTDOWN, Verdict.GIVEN_BACK), (Stop.LEASE_LOST, Verdict.LOST)],
)
def test_an_interrupted_try_ends_by_its_reason(stop: Stop, verdict: Verdict) -> None:
    """Whatever the interruption raised, the reason for it decides."""
    outcome = outcome_of(asyncio.CancelledError(), stop=stop, attempts=2, settings=SETTINGS)
    assert outcome.verdict is verdict


def test_a_result_that_came_in_time_counts() -> None:
    """A try that had finished when it was told to stop is a success."""
    assert outcome_of(None, stop=Stop.SHUTDOWN, attempts=0, settings=SETTINGS).verdict is Verdict.SUCCEEDED
