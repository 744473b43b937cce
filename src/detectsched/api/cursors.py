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
_POSITION: Final = struct.Struct(">q16s")


def cursor_of(moment: datetime, identity: UUID) -> str:
    """Return the cursor that names a position."""
    micros = (moment - _EPOCH) // timedelta(microseconds=1)
    return base64.urlsafe_b64encode(_POSITION.pack(micros, identity.bytes)).decode()


def position_of(cursor: str) -> tuple[datetime, UUID]:
    """Return the position that a cursor names.

    Raises:
        InvalidRequest: it is none of ours.
    """
    try:
        micros, identity = _POSITION.unpack(base64.b64decode(cursor, altchars=b"-_", validate=True))
        return _EPOCH + timedelta(microseconds=micros), UUID(bytes=identity)
    except (binascii.Error, ValueError, struct.error, OverflowError):
        raise InvalidRequest("this is no cursor: use the next_cursor of a page", field="cursor") from None
