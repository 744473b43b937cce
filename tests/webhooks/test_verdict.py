"""What becomes of a message after an attempt."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from detectsched.settings import WebhookSettings
from detectsched.webhooks.verdict import Answer, Fate, Verdict, backoff_seconds, judge

SETTINGS = WebhookSettings(backoff_base_seconds=5, backoff_max_seconds=1000, max_attempts=6, max_age_seconds=5000)
NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)


def judged(answer: Answer, *, attempt: int = 1, age: float = 0.0, chance: float = 1.0) -> Verdict:
    """Judge with the highest value that chance may give, or another."""
    return judge(
        answer, attempt=attempt, age_seconds=age, settings=SETTINGS, now=NOW, uniform=lambda low, high: high * chance
    )


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_taken(status: int) -> None:
    """By any 2xx, at any attempt."""
    assert judged(Answer(status), attempt=99, age=9e9) == Verdict(Fate.DELIVERED, status=status)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer(500), "status_500"),
        (Answer(404), "status_404"),
        (Answer(401), "status_401"),
        (Answer(302), "redirect"),
        (Answer(304), "redirect"),
        (Answer(199), "status_199"),
        (Answer(error="timeout"), "timeout"),
        (Answer(), "no_answer"),
    ],
)
def test_not_taken(answer: Answer, error: str) -> None:
    """It comes again, until it was tried too often or is too old; a redirect is not followed."""
    assert judged(answer) == Verdict(Fate.AGAIN, 5.0, answer.status, error)
    assert judged(answer, attempt=5).fate is Fate.AGAIN
    assert judged(answer, attempt=6) == Verdict(Fate.DEAD, 0.0, answer.status, error)
    assert judged(answer, age=4999).fate is Fate.AGAIN
    assert judged(answer, age=5000).fate is Fate.DEAD


def test_gone() -> None:
    """410 ends it at once."""
    assert judged(Answer(410)) == Verdict(Fate.GONE, status=410, error="gone")
    assert judged(Answer(410), attempt=6).fate is Fate.GONE


def test_the_back_off_grows_to_its_cap() -> None:
    """Three times as long each time; between half of it and all of it."""
    waits = [backoff_seconds(attempt, SETTINGS, lambda _low, high: high) for attempt in (1, 2, 3, 4, 5, 6, 10**9)]
    assert waits == [5, 15, 45, 135, 405, 1000, 1000]
    assert backoff_seconds(1, SETTINGS, lambda low, _high: low) == 2.5


@pytest.mark.parametrize(
    ("retry_after", "delay"),
    [
        ("60", 60.0),
        (" 60 ", 60.0),
        ("2", 5.0),
        ("999999999999", 1000.0),
        ("-5", 5.0),
        ("soon", 5.0),
        ("²", 5.0),
        ("", 5.0),
        ("Mon, 30 Nov 2026 12:02:00 GMT", 120.0),
        ("Mon, 30 Nov 2026 12:02:00 -0000", 120.0),
        ("Mon, 30 Nov 2026 11:00:00 GMT", 5.0),
        ("Fri, 01 Jan 9999 00:00:00 GMT", 1000.0),
        (None, 5.0),
    ],
)
def test_retry_after_is_respected(retry_after: str | None, delay: float) -> None:
    """As a number or a date, where it asks for more than the back-off, up to its cap."""
    assert judged(Answer(503, retry_after=retry_after)).delay_seconds == delay
    assert judged(Answer(429, retry_after=retry_after)).delay_seconds == delay
    assert judged(Answer(500, retry_after=retry_after)).delay_seconds == 5.0
