"""Words that run across the lines which an engine read."""

from __future__ import annotations

import pytest

from detectsched.detection import Box, EngineResult, Hit, Line, Text
from detectsched.matching.layout import beside, wrapped
from tests.matching.judging import matcher

JUDGES = matcher("身份证", "click here", "casino")


def read(*lines: tuple[str, Box]) -> Text:
    """Return the text of an image of these lines."""
    return EngineResult("fake", "1", tuple(Line(text, box, 0.9) for text, box in lines), 400, 400, 0.0).joined()


def judged(text: Text) -> tuple[Hit, ...]:
    """Return what is found in a text."""
    return JUDGES.match(text).hits


FIRST = Box(20, 10, 300, 40)
SECOND = Box(20, 50, 120, 80)


def test_a_word_broken_by_a_wrapped_line_is_found() -> None:
    """At its place in the joined text, line break included, in the box around both lines."""
    (hit,) = judged(read(("请提供你的身份", FIRST), ("证号码", SECOND)))
    assert (hit.start, hit.end, hit.matched) == (5, 9, "身份\n证")
    assert hit.box == Box(20, 10, 300, 80)


def test_a_word_over_three_lines_and_one_in_a_line() -> None:
    """Every break of the paragraph is closed; what stands within a line is reported once, in its line's box."""
    lines = [("身份证身", FIRST), ("份", Box(20, 50, 300, 80)), ("证", Box(20, 90, 50, 120))]
    hits = judged(read(*lines))
    assert [(hit.start, hit.end, hit.box) for hit in hits] == [(0, 3, FIRST), (3, 8, Box(20, 10, 300, 120))]


def test_a_phrase_of_words_is_found_across_lines_and_a_word_is_not_glued() -> None:
    """Words of spaced scripts wrap between words: the break is their space."""
    assert [hit.word for hit in judged(read(("please click", FIRST), ("here", SECOND)))] == ["click here"]
    assert judged(read(("cas", FIRST), ("ino", SECOND))) == ()
    assert [hit.word for hit in judged(read(("casino", FIRST), ("身份", SECOND)))] == ["casino"]


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
        (Box(340, 10, 420, 40), False),  # beside it, in a column of its own
        (Box(20, 50, 120, 50), False),  # no height
    ],
)
def test_what_counts_as_one_wrapped_paragraph(below: Box, same: bool) -> None:
    """Decided by the boxes alone."""
    assert wrapped(FIRST, below) is same
    text = read(("你的身份", FIRST), ("证", below))
    assert bool(judged(text)) is same


LEFT, RIGHT = Box(20, 10, 100, 40), Box(110, 12, 200, 42)


def test_a_word_over_two_boxes_of_one_line_is_found() -> None:
    """Engines cut a line where its characters stand a little apart."""
    (hit,) = judged(read(("请出示身份", LEFT), ("证原件", RIGHT)))
    assert (hit.matched, hit.box) == ("身份\n证", Box(20, 10, 200, 42))


@pytest.mark.parametrize(
    ("right", "same"),
    [
        (RIGHT, True),
        (Box(136, 10, 200, 40), True),
        (Box(137, 10, 200, 40), False),  # a column of its own
        (Box(110, 30, 200, 60), False),  # set lower
        (Box(110, 10, 200, 60), False),  # another font size
        (Box(60, 10, 200, 40), False),  # over it
    ],
)
def test_what_counts_as_one_line(right: Box, same: bool) -> None:
    """The same height, side by side, about a character apart."""
    assert beside(LEFT, right) is same


def test_an_image_may_lack_the_spaces_of_a_word_and_a_typed_text_may_not() -> None:
    """Engines drop them; somebody who typed ``therapist`` meant one word. Between Chinese characters none is needed."""
    judges = matcher("the rapist", "文件 请")
    image = read(("see therapist 文件请", FIRST))
    assert [hit.word for hit in judges.match(image).hits] == ["the rapist", "文件 请"]
    assert [hit.word for hit in judges.match(Text("see therapist 文件请")).hits] == ["文件 请"]


def test_noise_and_wraps_together() -> None:
    """A break of the layout is no gap; noise beside it counts as noise."""
    assert [hit.matched for hit in judged(read(("你的身*", FIRST), ("份证", SECOND)))] == []
    assert [hit.matched for hit in judged(read(("你的身*份", FIRST), ("证", SECOND)))] == ["身*份\n证"]
