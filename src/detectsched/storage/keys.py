"""How blobs are named."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final
from uuid import UUID

_PART: Final = r"[A-Za-z0-9_-][A-Za-z0-9._-]*"
_KEY: Final = re.compile(f"{_PART}(?:/{_PART})*")


def blob_key(tenant: str, task_id: UUID, moment: datetime) -> str:
    """Return ``tenant/yyyy/mm/dd/task id``: a day's images of a tenant can be found and removed together."""
    return f"{tenant}/{moment:%Y/%m/%d}/{task_id}"


def check_key(key: str) -> str:
    """Return a key that leads nowhere outside the store.

    Raises:
        ValueError: ``..``, an absolute path, a NUL, an empty part. Keys come from `blob_key`, so this is a bug.
    """
    if not _KEY.fullmatch(key):
        raise ValueError(f"not a blob key: {key!r}")
    return key
