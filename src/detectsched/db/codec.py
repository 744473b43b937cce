"""Engine results, hits and list versions as the JSON that the ledger keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from detectsched.detection import Box, EngineResult, Line, ListVersion
from detectsched.wordlist import ListOptions


def box_to_json(box: Box | None) -> list[int] | None:
    """Return ``[left, top, right, bottom]`` in pixels."""
    return None if box is None else [box.left, box.top, box.right, box.bottom]


def lines_to_json(lines: tuple[Line, ...]) -> list[dict[str, Any]]:
    """Return the lines as ``{"text", "box", "score"}``."""
    return [{"text": line.text, "box": box_to_json(line.box), "score": round(line.score, 4)} for line in lines]


def engine_result_from_json(document: Mapping[str, Any]) -> EngineResult:
    """Return the engine result that an engine_record row holds."""
    return EngineResult(
        engine=document["engine"],
        version=document["version"],
        lines=tuple(Line(line["text"], Box(*line["box"]), line["score"]) for line in document["lines"]),
        width=document["width"] or 0,
        height=document["height"] or 0,
        seconds=document["seconds"] or 0.0,
    )


def lists_to_json(lists: tuple[ListVersion, ...]) -> list[dict[str, Any]]:
    """Return list versions as ``{"id", "version"}``."""
    return [{"id": item.list_id, "version": item.version} for item in lists]


def options_to_json(options: ListOptions) -> dict[str, Any]:
    """Return every option of a list, defaults as well: a version means the same when defaults change."""
    document: dict[str, Any] = msgspec.to_builtins(options)
    return document


def options_from_json(document: Mapping[str, Any]) -> ListOptions:
    """Return the options that a word_list_version row holds."""
    return msgspec.convert(document, ListOptions)
