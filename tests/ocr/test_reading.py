"""What engines have in common, with a detector and a recogniser that are easy to foresee."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from detectsched.detection import Box
from detectsched.ocr.crops import LONGEST_RATIO, cut_line, glue, pieces
from detectsched.ocr.engine import AnswerCountError
from detectsched.ocr.reading import Image, in_reading_order, read_lines
from detectsched.ocr.tiles import Quad
from tests.ocr.test_tiles import quad


def blank(width: int, height: int) -> Image:
    """Return a white image."""
    return np.full((height, width, 3), 255, np.uint8)


def find_bars(tile: Image) -> Sequence[Quad]:
    """Find grey bars: each run of rows that are not white is a line over the columns that are not."""
    rows = np.flatnonzero((tile[..., 0] < 255).any(axis=1))
    found = []
    for run in np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1) if len(rows) else []:
        columns = np.flatnonzero((tile[run[0] : run[-1] + 1, :, 0] < 255).any(axis=0))
        found.append(quad(columns[0], run[0], columns[-1] + 1, run[-1] + 1))
    return found


def read_shade(crops: Sequence[Image]) -> list[tuple[str, float]]:
    """Read a bar as the grey of its middle."""
    return [(str(int(crop[crop.shape[0] // 2, crop.shape[1] // 2, 0])), 1.0) for crop in crops]


def test_bars_over_tile_borders_are_read_once_where_they_are() -> None:
    """Lines of a tall and of a wide image keep order, text and place."""
    tall, wide = blank(300, 5000), blank(5000, 100)
    tops = list(range(10, 4950, 60))
    for shade, top in enumerate(tops):
        tall[top : top + 40, 20:280] = shade
    wide[30:70, 15:4990] = 7
    lines = read_lines(tall, find_bars, read_shade, min_score=0.5)
    assert [(line.text, line.box) for line in lines] == [
        (str(shade), Box(20, top, 280, top + 40)) for shade, top in enumerate(tops)
    ]
    (line,) = read_lines(wide, find_bars, read_shade, min_score=0.5)
    assert line.box == Box(15, 30, 4990, 70)


def test_what_reads_as_nothing_or_too_uncertainly_is_no_line() -> None:
    """Blank texts and low scores are dropped, the others keep their boxes."""
    image = blank(300, 200)
    for shade, top in enumerate((10, 60, 110)):
        image[top : top + 30, 20:200] = shade
    answers = {"0": ("  ", 1.0), "1": ("kept", 0.95), "2": ("doubtful", 0.4)}

    def recognise(crops: Sequence[Image]) -> list[tuple[str, float]]:
        return [answers[text] for text, _ in read_shade(crops)]

    (line,) = read_lines(image, find_bars, recognise, min_score=0.5)
    assert (line.text, line.box) == ("kept", Box(20, 60, 200, 90))


@pytest.mark.parametrize("surplus", [-1, 1])
def test_an_engine_that_answers_too_little_or_too_much_is_not_believed(surplus: int) -> None:
    """Whose text is whose is unknown then; a shifted answer would accuse the wrong line."""
    image = blank(300, 200)
    image[10:40, 20:200] = 1
    image[60:90, 20:200] = 2

    def recognise(crops: Sequence[Image]) -> list[tuple[str, float]]:
        return [("text", 1.0)] * (len(crops) + surplus)

    with pytest.raises(AnswerCountError):
        read_lines(image, find_bars, recognise, min_score=0.5)


def test_a_doubtful_line_is_read_upside_down_too_and_the_better_reading_counts() -> None:
    """Only doubtful lines are: the upright ones of a page cost nothing."""
    image = blank(300, 200)
    image[10:40, 20:200] = np.linspace(0, 200, 180, dtype=np.uint8)[None, :, None]  # the right way: darker left
    image[60:90, 20:200] = np.linspace(200, 0, 180, dtype=np.uint8)[None, :, None]
    asked: list[int] = []

    def recognise(crops: Sequence[Image]) -> list[tuple[str, float]]:
        asked.append(len(crops))
        return [("upright", 0.99) if crop[5, 5, 0] < crop[5, -5, 0] else ("?", 0.3) for crop in crops]

    assert [line.text for line in read_lines(image, find_bars, recognise, min_score=0.5)] == ["upright", "upright"]
    assert asked == [2, 1]


def test_boxes_are_whole_pixels_inside_the_image() -> None:
    """Detectors return fractions and go over the edge; a box has at least one pixel."""

    def detect(_: Image) -> Sequence[Quad]:
        return [quad(-5.5, -3, 50.2, 20.7), quad(90, 40, 130, 70), quad(100, 50, 100, 50)]

    def recognise(crops: Sequence[Image]) -> list[tuple[str, float]]:
        return [("x", 1.0)] * len(crops)

    boxes = {line.box for line in read_lines(blank(100, 50), detect, recognise, min_score=0)}
    assert boxes == {Box(0, 0, 51, 21), Box(90, 40, 100, 50), Box(99, 49, 100, 50)}


def test_reading_order_is_rows_then_columns() -> None:
    """Boxes of one row differ by some pixels in height and must not swap."""
    row1 = [quad(10, 12, 90, 42), quad(110, 8, 190, 40), quad(200, 10, 290, 41)]
    row2 = [quad(10, 50, 90, 80), quad(110, 47, 190, 78)]
    shuffled = [row2[1], row1[2], row1[0], row2[0], row1[1]]
    assert [q.tolist() for q in in_reading_order(shuffled)] == [q.tolist() for q in row1 + row2]


def test_a_line_is_cut_out_straight() -> None:
    """Size and pixels of a crop are those of the line, also of one that runs downwards."""
    image = blank(100, 100)
    image[20:40, 10:70] = 5
    crop = cut_line(image, quad(10, 20, 70, 40))
    assert crop.shape == (20, 60, 3)
    assert crop.max() == 5
    assert cut_line(image, quad(10, 20, 30, 80)).shape == (20, 60, 3)


def test_a_very_long_line_is_cut_where_it_is_blank() -> None:
    """No piece is longer than a recogniser can take, and no letter is cut."""
    line = blank(5000, 40)
    letters = [(x, x + 25) for x in range(0, 5000, 60)]
    for start, end in letters:
        line[8:32, start:end] = 0
        line[14:20, start + 5 : end - 5] = 200
    cut = pieces(line)
    assert len(cut) > 2
    assert sum(piece.shape[1] for piece in cut) == 5000
    assert all(piece.shape[1] <= LONGEST_RATIO * 40 for piece in cut)
    assert all(piece[:, [0, -1], 0].min() == 255 for piece in cut[1:-1])
    assert len(pieces(line[:, : LONGEST_RATIO * 40])) == 1


def test_pieces_are_glued_as_they_were_written() -> None:
    """The blank between Latin words was the cut; Chinese has none."""
    assert glue(["hello", "world"]) == "hello world"
    assert glue(["中文", "文字"]) == "中文文字"
    assert glue(["价格", "100", "元"]) == "价格100元"
    assert glue(["", "a", ""]) == "a"
