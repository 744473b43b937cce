"""What of a task is sealed, column by column: the one place that knows which columns those are.

Sealed are the text, what an engine read, and what of the text was matched; not the words that were sought, which come
from the lists, nor offsets, boxes, counts and names. A seal None leaves everything as it is.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from detectsched.db.models import EngineRecord, HitRow, Task
from detectsched.sealing import Seal

_TEXT: Final = "task.text"
_READING: Final = "engine_record.text"
_LINES: Final = "engine_record.lines"


def sealed_text(seal: Seal | None, text: str) -> str:
    """Return a task's text as it is kept."""
    return text if seal is None else seal.text(_TEXT, text)


def opened_text(seal: Seal | None, kept: str) -> str:
    """Return a task's text.

    Raises:
        SealBroken: it is not what was sealed there; so do all below.
    """
    return kept if seal is None else seal.open_text(_TEXT, kept)


def sealed_reading(seal: Seal | None, text: str) -> str:
    """Return the text that an engine read as it is kept."""
    return text if seal is None else seal.text(_READING, text)


def sealed_lines(seal: Seal | None, lines: list[dict[str, Any]]) -> Any:
    """Return an engine's lines as they are kept: JSON, or one JSON string that is sealed."""
    return lines if seal is None else seal.text(_LINES, json.dumps(lines))


def opened_lines(seal: Seal | None, kept: Any) -> Any:
    """Return an engine's lines."""
    return kept if seal is None else json.loads(seal.open_text(_LINES, kept))


def sealed_match(seal: Seal | None, matched: str, start: int, end: int) -> str:
    """Return what stands in the text at a hit as it is kept; hits of one task cannot be swapped either."""
    return matched if seal is None else seal.text(_match(start, end), matched)


def open_rows(seal: Seal | None, task: Task, engine: EngineRecord | None, hits: Sequence[HitRow]) -> None:
    """Open a task's rows in place; no session may hold them any more."""
    if seal is None:
        return
    if task.text is not None:
        task.text = opened_text(seal, task.text)
    if engine is not None and engine.text is not None:
        engine.text = seal.open_text(_READING, engine.text)
        engine.lines = opened_lines(seal, engine.lines)
    for hit in hits:
        hit.matched = seal.open_text(_match(hit.start_offset, hit.end_offset), hit.matched)


def _match(start: int, end: int) -> str:
    return f"hit.matched at {start} to {end}"
