"""How columns of the usual kinds are declared."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    DateTime,
    Double,
    Text,
    text,
)
from sqlmodel import Field

NOW = text("now()")
FALSE = text("false")


def text_(*, default: str | None = None, **kwargs: Any) -> Any:
    """Return a text column."""
    return Field(sa_type=Text, sa_column_kwargs={"server_default": default} if default is not None else {}, **kwargs)


def time_(*, default: bool = True, **kwargs: Any) -> Any:
    """Return a column of a moment; by default that of the insert."""
    column = {"server_default": NOW} if default else {}
    return Field(sa_type=DateTime(timezone=True), sa_column_kwargs=column, **kwargs)


def double_(*, server: str | None = None, **kwargs: Any) -> Any:
    """Return a column of a number."""
    return Field(sa_type=Double, sa_column_kwargs={"server_default": server} if server is not None else {}, **kwargs)


def count_() -> Any:
    """Return a column that counts from 0."""
    return Field(sa_type=BigInteger, sa_column_kwargs={"server_default": "0"})
