"""What becomes of a message after an attempt: a pure decision."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Final

from detectsched.settings import WebhookSettings

_RETRY_AFTER: Final = frozenset({429, 503})
_FACTOR: Final = 3.0


class Fate(StrEnum):
    """What becomes of a message."""

    DELIVERED = "delivered"
    """It was taken."""
    AGAIN = "again"
    """It is sent again later."""
    DEAD = "dead"
    """It is given up."""
    GONE = "gone"
    """It is given up, and the address wants nothing more, ever (410)."""


@dataclass(frozen=True, slots=True)
class Answer:
    """How an address answered: with a status, or not at all, and then why (``error``, a stable word)."""

    status: int | None = None
    error: str | None = None
    retry_after: str | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a message; ``error`` is a stable word, ``delay_seconds`` when it is sent again."""

    fate: Fate
    delay_seconds: float = 0.0
    status: int | None = None
    error: str | None = None


def judge(
    answer: Answer,
    *,
    attempt: int,
    age_seconds: float,
    settings: WebhookSettings,
    now: datetime,
    uniform: Callable[[float, float], float] = random.uniform,
) -> Verdict:
    """Decide by the answer to an attempt, the first of which is 1.

    Everything but 2xx and 410 is tried again, 4xx as well: a receiver that is being set up answers with them.
    """
    if answer.status is not None and 200 <= answer.status < 300:
        return Verdict(Fate.DELIVERED, status=answer.status)
    error = answer.error or _word_of(answer.status)
    if answer.status == 410:
        return Verdict(Fate.GONE, status=410, error="gone")
    if attempt >= settings.max_attempts or age_seconds >= settings.max_age_seconds:
        return Verdict(Fate.DEAD, status=answer.status, error=error)
    delay = backoff_seconds(attempt, settings, uniform)
    if answer.status in _RETRY_AFTER:
        # Asked for more than that, we come back all the same: a mistake there must not silence us for a year.
        delay = max(delay, min(_seconds_of(answer.retry_after, now), settings.backoff_max_seconds))
    return Verdict(Fate.AGAIN, delay, answer.status, error)


def backoff_seconds(attempt: int, settings: WebhookSettings, uniform: Callable[[float, float], float]) -> float:
    """Return how long to wait after a failed attempt: three times as long each time, up to a cap.

    Up to half of it is left to chance, so that what failed together does not come back together.
    """
    # 3^40 is more than any cap: no power needs to be computed beyond.
    full = min(settings.backoff_base_seconds * _FACTOR ** min(attempt - 1, 40), settings.backoff_max_seconds)
    return full * uniform(0.5, 1.0)


def _word_of(status: int | None) -> str:
    if status is None:
        return "no_answer"
    return "redirect" if 300 <= status < 400 else f"status_{status}"


def _seconds_of(retry_after: str | None, now: datetime) -> float:
    """Return what Retry-After asks for, in seconds or as a date; 0 for what cannot be read."""
    if retry_after is None:
        return 0.0
    text = retry_after.strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return 0.0
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max((moment - now).total_seconds(), 0.0)
