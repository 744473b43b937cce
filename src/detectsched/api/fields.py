"""Fields that several documents have, as the OpenAPI document tells them.

Patterns that are only told stand for checks that code makes with better words; each says exactly what the code takes,
so that clients can check before they ask.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import Path
from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from detectsched.task import MAX_OBJECT_NAME

_MAC: Final = (
    "^(?![0:.-]+$)(?![Ff:.-]+$)(?:"
    "(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}|(?:[0-9A-Fa-f]{2}-){5}[0-9A-Fa-f]{2}|"
    "(?:[0-9A-Fa-f]{4}[.]){2}[0-9A-Fa-f]{4}|[0-9A-Fa-f]{12})$"
)
"""As `task.normalise_mac`, which takes white space around it as well."""
_CONTROL: Final = r"\u0000-\u0008\u000e-\u001b\u007f-\u0084\u0086-\u009f"
_SPACE: Final = r"\u0009-\u000d\u001c-\u0020\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_NAME: Final = f"^[^{_CONTROL}]*[^{_CONTROL}{_SPACE}][^{_CONTROL}]*$"
"""As `task.normalise_object`: no control characters but white space, and not white space alone."""
_CURSOR: Final = "^[A-Za-z0-9_-]{32}$"
"""24 bytes as base64url (`cursors.cursor_of`)."""


def _told(**keywords: Any) -> Any:
    return Field(json_schema_extra=keywords)


def whole(value: object) -> object:
    """Return 60 for 60.0, which is the same number to JSON."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


WHOLE: Final = BeforeValidator(whole)
"""Stands last, behind a number's limits: in front of them it would keep them out of the OpenAPI document."""

Mac = Annotated[
    str, StringConstraints(max_length=64), _told(pattern=_MAC, examples=["AA:BB:CC:DD:EE:FF", "AABBCCDDEEFF"])
]
"""A device, in any usual spelling."""
ObjectName = Annotated[
    str,
    StringConstraints(min_length=1, max_length=2 * MAX_OBJECT_NAME),
    _told(maxLength=MAX_OBJECT_NAME, pattern=_NAME, examples=["case 17"]),
]
"""An object, in any spelling; one that is shorter in the form that identifies it may be longer here."""
Text = Annotated[str, StringConstraints(min_length=1), _told(pattern=r"^[^\u0000]+$")]
"""A text to be searched; PostgreSQL cannot store U+0000."""
Url = Annotated[
    str,
    StringConstraints(min_length=1, max_length=2000),
    _told(format="uri", pattern="^[Hh][Tt][Tt][Pp][Ss]?://", examples=["https://example.com/hook"]),
]
"""Where something is sent to or fetched from; which hosts and ports may be named is the server's affair."""


def _is_cursor(value: str) -> str:
    if not re.fullmatch(_CURSOR, value):
        raise ValueError(NO_CURSOR)
    return value


NO_CURSOR: Final = "this is no cursor: use the next_cursor of a page"
Cursor = Annotated[str, _told(pattern=_CURSOR), AfterValidator(_is_cursor)]
"""A place in a list; without meaning to callers."""


NAMED: Final = "x-named"
"""Names the component that stands in the document in place of a schema: names that this server knows (`openapi`)."""


def _id_of(what: str) -> Any:
    return Path(description=f"The {what}'s id.")


TaskId = Annotated[UUID, _id_of("task")]
CommandId = Annotated[UUID, _id_of("command")]
WebhookId = Annotated[UUID, _id_of("webhook")]


def never(case: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keyword that says which combination of fields is refused.

    Generators of clients do not look at it, nor at those of `exactly_one`; of alternatives they would make several
    models.
    """
    return {"not": dict(case)}


def none_of(*names: str) -> dict[str, Any]:
    """Return the case that every one of these fields is left out or null."""
    return {"properties": {name: {"type": "null"} for name in names}}


def left_out(*names: str) -> dict[str, Any]:
    """Return the case that every one of these fields is left out."""
    # Not the schema false: there are generators that do not know it.
    return {"properties": {name: {"not": {}} for name in names}}


def exactly_one(*pairs: tuple[str, str]) -> dict[str, Any]:
    """Return the keywords that say that of each pair of fields one is given, and the other is left out or null."""
    if not pairs:
        return {}
    (one, other), *rest = pairs
    inner = exactly_one(*rest)
    given = {"type": "string"}
    return {
        "if": {"properties": {one: given}, "required": [one]},
        "then": {"properties": {other: {"type": "null"}}, **inner},
        "else": {"properties": {other: given}, "required": [other], **inner},
    }
