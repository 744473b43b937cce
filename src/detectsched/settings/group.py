"""What all groups of settings have."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


class Group(BaseModel):
    """A component's settings: unknown names are refused, values are frozen."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, use_attribute_docstrings=True)


def split_names(value: Any) -> Any:
    """Return names that are separated by commas or blanks as a tuple; anything else as it is."""
    return tuple(value.replace(",", " ").split()) if isinstance(value, str) else value
