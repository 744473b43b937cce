"""Cursors of lists that are ordered by a time, then an id; to callers they are words without meaning."""

from __future__ import annotations

import base64
import binascii
import struct
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from detectsched.errors import InvalidRequest

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST: Final = (datetime(9999, 12, 31, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
_POSITION: Final = struct.Struct(">q16s")


def cursor_of(moment: datetime, identity: UUID) -> str:
    """Return the cursor that names a position."""
    return base64.urlsafe_b64encode(_POSITION.pack(micros_of(moment), identity.bytes)).decode()


def position_of(cursor: str) -> tuple[datetime, UUID]:
    """Return the position that a cursor names.

    Raises:
        InvalidRequest: it is none of ours.
    """
    try:
        micros, identity = _POSITION.unpack(base64.b64decode(cursor, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, struct.error):
        raise InvalidRequest("this is no cursor: use the next_cursor of a page", field="cursor") from None
    return time_at(micros), UUID(bytes=identity)


def micros_of(moment: datetime) -> int:
    """Return a time in microseconds since 1970."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def time_at(micros: int) -> datetime:
    """Return the time so many microseconds after 1970; beyond the calendar nothing stands, so its end will do."""
    return _EPOCH + timedelta(microseconds=min(max(micros, 0), _LAST))
