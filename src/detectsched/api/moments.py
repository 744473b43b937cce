"""Times that callers send."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import AfterValidator, AwareDatetime, BeforeValidator, Field

_WRITTEN: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt ]")


def _is_written(value: object) -> object:
    # A bare number would be taken for seconds since 1970, also 2026.
    if not isinstance(value, str) or not _WRITTEN.match(value):
        raise ValueError("write a date with time and zone, as 2026-12-24T08:00:00Z")
    return value


def _is_sane(value: AwareDatetime) -> AwareDatetime:
    # At the ends of the calendar a change of zone overflows.
    if not 1970 <= value.year <= 9000:
        raise ValueError("its year is not between 1970 and 9000")
    return value


Moment = Annotated[AwareDatetime, Field(strict=False), BeforeValidator(_is_written), AfterValidator(_is_sane)]
"""A time as ISO 8601 writes it, with its zone."""
