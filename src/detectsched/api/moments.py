"""Times that callers send."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Final

from pydantic import AfterValidator, AwareDatetime, BeforeValidator, Field

_FIRST: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST: Final = datetime(9000, 1, 1, tzinfo=UTC)
_WRITTEN: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt ]")


def _is_written(value: object) -> object:
    # A bare number would be taken for seconds since 1970, also 2026.
    if not isinstance(value, str) or not _WRITTEN.match(value):
        raise ValueError("write a date with time and zone, as 2026-12-24T08:00:00Z")
    return value


def _within(value: AwareDatetime) -> AwareDatetime:
    # At the ends of the calendar a change of zone overflows. Nothing here is that old, or is to happen that late, so it
    # makes no difference; and there are programs for which the year 1 means "always".
    if value.year < _FIRST.year:
        return _FIRST
    return min(value, _LAST)


Moment = Annotated[AwareDatetime, Field(strict=False), BeforeValidator(_is_written), AfterValidator(_within)]
"""A time as ISO 8601 writes it, with its zone."""
