"""Writes docs/settings.md from the settings (``make docs``); with ``--check`` only says whether it is up to date."""

from __future__ import annotations

import enum
import sys
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast

import annotated_types
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic.types import StringConstraints

from detectsched.settings import Settings, environment_names

TARGET: Final = Path(__file__).resolve().parents[1] / "docs" / "settings.md"

HEAD: Final = """\
# Settings

Made from `src/detectsched/settings` by `make docs`; not edited by hand.

Every setting is an environment variable, read once when a process starts. All are checked together: a wrong value or a
misspelt name stops the process with a message that names each of them. Names in parentheses are those of the original
Celery design, whose defaults are kept.
"""
TITLES: Final = {"": "General", "redis": "Redis or Valkey", "postgres": "PostgreSQL", "api": "API", "ocr": "OCR"}
COLUMNS: Final = ("Variable", "Type", "Default", "Range", "Meaning")
TYPE_NAMES: Final = {
    int: "integer",
    float: "number",
    bool: "true or false",
    str: "text",
    Path: "path",
    SecretStr: "secret text",
}
BOUNDS: Final = ((annotated_types.Ge, "≥", "ge"), (annotated_types.Gt, ">", "gt"), (annotated_types.Le, "≤", "le"))


def render() -> str:
    """Return the whole page."""
    return HEAD + "".join(sections())


def sections() -> Iterator[str]:
    """Yield a heading and a table per group, the settings outside any group first."""
    groups: dict[str, list[tuple[str, FieldInfo]]] = {}
    for variable, group, name in environment_names():
        groups.setdefault(group, []).append((variable, model_of(group).model_fields[name]))
    for group in sorted(groups, key=bool):
        yield f"\n## {TITLES.get(group, group.capitalize())}\n\n{(model_of(group).__doc__ or '').strip()}\n\n"
        yield row(COLUMNS) + row("---" for _ in COLUMNS)
        yield from (row(cells(variable, field)) for variable, field in groups[group])


def model_of(group: str) -> type[BaseModel]:
    """Return the class that holds a group's settings, or those of no group."""
    return cast("type[BaseModel]", Settings.model_fields[group].annotation) if group else Settings


def cells(variable: str, field: FieldInfo) -> Iterator[str]:
    """Yield variable, type, default, range and meaning of a setting."""
    yield f"`{variable}`"
    yield type_of(field.annotation)
    yield default_of(field.default)
    yield range_of(field)
    yield " ".join((field.description or "").split())


def type_of(annotation: Any) -> str:
    """Name a type for people."""
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return "one of " + ", ".join(f"`{member.value}`" for member in annotation)
    if isinstance(annotation, types.UnionType):
        return " or ".join(type_of(part) for part in typing.get_args(annotation) if part is not type(None))
    if typing.get_origin(annotation) is tuple:
        return "list"
    return TYPE_NAMES[annotation]


def default_of(value: Any) -> str:
    """Write a default as one would in the environment."""
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, tuple):
        value = ",".join(value)
    if isinstance(value, bool):
        value = str(value).lower()
    if isinstance(value, float):
        value = f"{value:g}"
    return "" if value is None else f"`{value}`"


def range_of(field: FieldInfo) -> str:
    """Tell the bounds or the pattern of a setting."""
    parts = []
    for constraint in field.metadata:
        parts += [
            f"{sign} {getattr(constraint, name):,g}" for kind, sign, name in BOUNDS if isinstance(constraint, kind)
        ]
        pattern = getattr(constraint, "pattern", None)
        if isinstance(constraint, StringConstraints) or pattern:
            parts.append(f"`{str(pattern).replace('|', chr(92) + '|')}`")
    return ", ".join(parts)


def row(values: Any) -> str:
    """Return a line of a Markdown table."""
    return "| " + " | ".join(values) + " |\n"


def main() -> None:
    """Write the page, or compare it."""
    if sys.argv[1:] != ["--check"]:
        TARGET.write_text(render(), encoding="utf-8")
    elif not TARGET.is_file() or TARGET.read_text(encoding="utf-8") != render():
        sys.exit("docs/settings.md is not what the settings say: run `make docs` and commit it")


if __name__ == "__main__":
    main()
