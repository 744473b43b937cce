"""Words that run across the lines which an engine read."""

from __future__ import annotations

import pytest

from detectsched.detection import Box, EngineResult, Line, ListVersion, Text, Word
from detectsched.matching.matcher import Matcher
from detectsched.matching.readings import wrapped

JUDGES = Matcher({ListVersion("main", 1): [Word("身份证"), Word("click here"), Word("casino")]})


def read(*lines: tuple[str, Box]) -> Text:
    """Return the text of an image of these lines."""
    return EngineResult("fake", "1", tuple(Line(text, box, 0.9) for text, box in lines), 400, 400, 0.0).joined()


FIRST = Box(20, 10, 300, 40)
SECOND = Box(20, 50, 120, 80)


def test_a_word_broken_by_a_wrapped_line_is_found() -> None:
    """At its place in the joined text, line break included, in the box around both lines."""
    (hit,) = JUDGES.match(read(("请提供你的身份", FIRST), ("证号码", SECOND)))
    assert (hit.start, hit.end, hit.matched) == (5, 9, "身份\n证")
    assert hit.box == Box(20, 10, 300, 80)


def test_a_word_over_three_lines_and_one_in_a_line() -> None:
    """Every break of the paragraph is closed; what stands within a line is reported once, in its line's box."""
    lines = [("身份证身", FIRST), ("份", Box(20, 50, 300, 80)), ("证", Box(20, 90, 50, 120))]
    hits = JUDGES.match(read(*lines))
    assert [(hit.start, hit.end, hit.box) for hit in hits] == [(0, 3, FIRST), (3, 8, Box(20, 10, 300, 120))]


def test_a_phrase_of_words_is_found_across_lines_and_a_word_is_not_glued() -> None:
    """Words of spaced scripts wrap between words: the break is their space."""
    assert [hit.word for hit in JUDGES.match(read(("please click", FIRST), ("here", SECOND)))] == ["click here"]
    assert JUDGES.match(read(("cas", FIRST), ("ino", SECOND))) == ()
    assert [hit.word for hit in JUDGES.match(read(("casino", FIRST), ("身份", SECOND)))] == ["casino"]


@pytest.mark.parametrize(
    ("below", "same"),
    [
        (SECOND, True),
        (Box(20, 66, 300, 96), True),
        (Box(20, 70, 120, 100), False),  # too far below: another bubble
        (Box(20, 0, 120, 20), False),  # above
        (Box(80, 50, 200, 80), False),  # another left edge
        (Box(20, 50, 360, 80), False),  # the first line ended early: it did not wrap
        (Box(20, 50, 120, 110), False),  # another font size
        (Box(320, 10, 400, 40), False),  # beside it
        (Box(20, 50, 120, 50), False),  # no height
    ],
)
def test_what_counts_as_one_wrapped_paragraph(below: Box, same: bool) -> None:
    """Decided by the boxes alone."""
    assert wrapped(FIRST, below) is same
    text = read(("你的身份", FIRST), ("证", below))
    assert bool(JUDGES.match(text)) is same
