"""Cutting an image into tiles and putting together what they found."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from detectsched.ocr.tiles import OVERLAP, TILE_SIDE, Quad, join, split


def quad(left: float, top: float, right: float, bottom: float) -> Quad:
    """Return an upright box."""
    return np.array([[left, top], [right, top], [right, bottom], [left, bottom]], np.float32)


def bounds(quads: list[Quad]) -> list[tuple[int, ...]]:
    """Return the boxes as whole numbers, sorted."""
    return sorted(tuple(np.rint([*q.min(axis=0), *q.max(axis=0)]).astype(int).tolist()) for q in quads)


def test_an_image_of_usual_size_is_one_tile() -> None:
    """Nothing changes for what the engine can take as it is."""
    assert split(TILE_SIDE, 1200) == ((0, 0, TILE_SIDE, 1200),)


@given(st.integers(1, 30_000), st.integers(1, 5000))
def test_tiles_cover_everything_and_share_their_borders(width: int, height: int) -> None:
    """No tile is too long, and any line up to the overlap's height is whole in one of them."""
    tiles = split(width, height)
    assert max(max(t.right - t.left, t.bottom - t.top) for t in tiles) <= TILE_SIDE
    for length, spans in (
        (width, sorted({(t.left, t.right) for t in tiles})),
        (height, sorted({(t.top, t.bottom) for t in tiles})),
    ):
        assert spans[0][0] == 0
        assert spans[-1][1] == length
        for (_, end), (start, _) in pairwise(spans):
            assert OVERLAP - 1 <= end - start <= OVERLAP + 1


def test_a_line_seen_by_two_tiles_is_one_line() -> None:
    """Whole in both, or cut in one: the result is the whole line, once."""
    assert bounds(join([[quad(10, 950, 500, 990)], [quad(11, 951, 499, 990)]])) == [(10, 950, 500, 990)]
    assert bounds(join([[quad(10, 980, 500, 1000)], [quad(10, 978, 500, 1018)]])) == [(10, 978, 500, 1018)]


def test_a_line_across_several_tiles_is_put_together() -> None:
    """A wide screenshot's line: each tile saw a part, neighbours' parts overlap."""
    parts = [[quad(20, 70, 1700, 110)], [quad(1540, 71, 3300, 110)], [quad(3140, 70, 4000, 109)]]
    assert bounds(join(parts)) == [(20, 70, 4000, 110)]


def test_neighbouring_lines_stay_apart() -> None:
    """Boxes of lines below each other touch; those of words beside each other do not overlap."""
    below = [[quad(10, 900, 500, 950), quad(10, 945, 500, 995)], [quad(10, 944, 500, 996), quad(10, 990, 500, 1040)]]
    assert bounds(join(below)) == [(10, 900, 500, 950), (10, 944, 500, 996), (10, 990, 500, 1040)]
    beside = [[quad(10, 900, 200, 950)], [quad(210, 900, 500, 950)]]
    assert len(join(beside)) == 2
    one_tile = [[quad(10, 900, 500, 950), quad(10, 905, 490, 955)], []]
    assert len(join(one_tile)) == 2


def test_a_column_of_vertical_writing_is_put_together() -> None:
    """The same for lines that run downwards."""
    assert bounds(join([[quad(100, 20, 140, 1500)], [quad(101, 1340, 140, 2600)]])) == [(100, 20, 140, 2600)]


def test_a_slanted_line_keeps_its_slant() -> None:
    """Corners go round from the top left, and the box hugs the line instead of growing upright."""

    def slanted(start: float, end: float) -> Quad:
        corners = [[start, start / 10], [end, end / 10], [end - 4, end / 10 + 40], [start - 4, start / 10 + 40]]
        return np.array(corners, np.float32)

    (line,) = join([[slanted(100, 1700)], [slanted(1540, 3000)]])
    expected = slanted(100, 3000)
    assert np.abs(line - expected).max() < 3
