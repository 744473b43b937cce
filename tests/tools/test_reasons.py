"""Every word that a task may give as the reason of its error stands in docs/http-api.md."""

from __future__ import annotations

import re
from pathlib import Path

from detectsched.ocr.faults import Fault
from detectsched.ocr.formats import Problem

ROOT = Path(__file__).parents[2]
RAISED = re.compile(r"(?:PayloadRejected|TaskFailed|EngineFailed|TaskError|__init__)\(\s*\"([a-z_]+)\"")
OF_NO_TASK = {"lists_not_tried"}
"""Told by `POST /api/word-lists/test` alone."""


def test_every_reason_is_documented() -> None:
    """Programs decide by them: a word that is nowhere to be read is none to rely on."""
    sources = "\n".join(path.read_text() for path in (ROOT / "src" / "detectsched").rglob("*.py"))
    words = set(RAISED.findall(sources)) | {*Fault} | {*Problem} | {"runner_lost", "no_runner", "expired"}
    assert {"poison", "undecodable_pdf", "too_large", "engine_unavailable", "sealed"} <= words
    guide = (ROOT / "docs" / "http-api.md").read_text()
    assert {word for word in words - OF_NO_TASK if f"`{word}`" not in guide} == set()
