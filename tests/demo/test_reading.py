"""A real engine reads the planted words in the drawn images."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

from detectsched.demo.corpus import DEMO_WORDS, Exhibit, images
from detectsched.detection import Box, EngineResult, Line, ListVersion
from detectsched.matching.matcher import Matcher
from detectsched.wordlist import ListContent

pytestmark = pytest.mark.ocr


@pytest.mark.parametrize("name", ["chat-chinese.png", "chat-english.jpeg", "clean-notes.webp"])
def test_planted_words_are_read_and_none_is_invented(name: str) -> None:
    """One of them is cut by the wrapped line of a bubble, one is full-width, one spans two lines in English."""
    exhibit = next(exhibit for exhibit in images() if exhibit.name == name)
    hits = Matcher({ListVersion("demo", 1): ListContent(DEMO_WORDS)}).match(read(exhibit).joined()).hits
    assert sorted(hit.word for hit in hits) == sorted(exhibit.planted)
    assert all(hit.box is not None for hit in hits)


def read(exhibit: Exhibit) -> EngineResult:
    """Return what RapidOCR reads, with upright boxes."""
    from rapidocr import RapidOCR  # noqa: PLC0415 - an optional extra that takes a second to import

    engine = RapidOCR(params={"Global.log_level": "error", "EngineConfig.onnxruntime.intra_op_num_threads": 1})
    image = Image.open(io.BytesIO(exhibit.data)).convert("RGB")
    answer: Any = engine(np.ascontiguousarray(np.asarray(image)[:, :, ::-1]))
    lines = tuple(
        Line(text, Box(*corners.min(axis=0).astype(int).tolist(), *corners.max(axis=0).astype(int).tolist()), score)
        for text, corners, score in zip(answer.txts or (), answer.boxes, answer.scores or (), strict=True)
    )
    return EngineResult("rapidocr", "test", lines, *image.size, answer.elapse)
