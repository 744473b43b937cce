"""The only source of wall-clock time, so that tests may bring their own.

Durations use the monotonic clock; times that several processes compare come from Redis or PostgreSQL, never from here.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime


def utc_now() -> datetime:
    """Return the current time, aware, in UTC."""
    return datetime.now(UTC)


def monotonic() -> float:
    """Return seconds on a clock that never goes back."""
    return time.monotonic()
