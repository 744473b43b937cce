"""How commands show what they got: a table for people, or the document as JSON for programs."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Output(StrEnum):
    """What is written to standard output."""

    TABLE = "table"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Shown:
    """What a command has to show: the document, and the same in lines for people."""

    document: Any
    lines: Sequence[str]

    def render(self, output: Output) -> str:
        """Return the text of standard output."""
        if output is Output.JSON:
            return json.dumps(self.document, ensure_ascii=False, indent=2)
        return "\n".join(self.lines)


def table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Return aligned columns; nothing is cut off, since a pipe has no width."""
    cells = [list(header), *([cell(value) for value in row] for row in rows)]
    widths = [max(_width(row[place]) for row in cells) for place in range(len(header))]
    return [
        "  ".join(text + " " * (width - _width(text)) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def facts(pairs: Iterable[tuple[str, Any]]) -> list[str]:
    """Return one aligned line for each name and value."""
    found = [(name, cell(value)) for name, value in pairs]
    width = max(len(name) for name, _ in found)
    return [f"{name.ljust(width)}  {value}".rstrip() for name, value in found]


def cell(value: Any) -> str:
    """Return a value as tables show it: on one line, and without anything that a terminal would obey."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    text = "".join(character if character.isprintable() else " " for character in str(value))
    # Times to the second; what needs more reads JSON.
    return f"{text[:19]}Z" if _is_time(text) else text


def _is_time(text: str) -> bool:
    return len(text) > 19 and text[4:5] == "-" and text[10:11] == "T" and text.endswith(("Z", "+00:00"))


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)
