"""Long and wide images are searched for text in tiles; what the tiles found is put together again.

Detection networks want an image of moderate size: shrunk to it, a long screenshot's letters vanish, and enlarging the
network's input instead costs gigabytes. Only the search for lines works on tiles. Lines are joined across tile borders
before anything is recognised, so no word is cut and none is read twice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

Quad = NDArray[np.float32]
"""Four corners (x, y) of a line of text: top left, top right, bottom right, bottom left."""

TILE_SIDE: Final = 2000
"""Longest side of a tile in pixels: what RapidOCR searches without shrinking (its ``max_side_len``)."""
THRIFTY_SIDE: Final = 800
"""The same where memory has run out: a sixth of the pixels."""
OVERLAP: Final = 160
"""Shared border of neighbouring tiles in pixels. Text up to this height is whole in one of them."""

_SAME_LINE: Final = 0.5
"""How thick the part two boxes share must be, as a share of the thinner box, for them to be parts of one line."""


class Tile(NamedTuple):
    """A part of an image, in pixels."""

    left: int
    top: int
    right: int
    bottom: int


def split(width: int, height: int, side: int = TILE_SIDE, overlap: int = OVERLAP) -> tuple[Tile, ...]:
    """Cover an image with nearly equal tiles no longer than ``side``; neighbours share ``overlap`` pixels."""
    return tuple(
        Tile(left, top, right, bottom)
        for top, bottom in _spans(height, side, overlap)
        for left, right in _spans(width, side, overlap)
    )


def _spans(length: int, side: int, overlap: int) -> list[tuple[int, int]]:
    if length <= side:
        return [(0, length)]
    count = math.ceil((length - overlap) / (side - overlap))
    step = (length - overlap) / count
    return [(round(step * i), min(length, round(step * (i + 1)) + overlap)) for i in range(count)]


def join(found: Sequence[Sequence[Quad]]) -> list[Quad]:
    """Make one list of lines from what each tile found; coordinates are already those of the whole image.

    Boxes from different tiles that cover the same stretch of a line are parts of it; the line is the tightest rectangle
    around its parts. Boxes of neighbouring lines touch, too, but share no more than a sliver.
    """
    quads = [quad for group in found for quad in group]
    if len(found) < 2 or len(quads) < 2:
        return quads
    tile = np.repeat(np.arange(len(found)), [len(group) for group in found])
    low = np.array([quad.min(axis=0) for quad in quads])
    high = np.array([quad.max(axis=0) for quad in quads])
    near = (np.minimum(high[:, None], high) > np.maximum(low[:, None], low)).all(axis=2)
    same = near & (tile[:, None] < tile)
    for i, j in np.argwhere(same):
        same[i, j] = _share_a_stretch(quads[i], quads[j])
    return [_around([quads[i] for i in parts]) for parts in _components(same | same.T)]


def _share_a_stretch(a: Quad, b: Quad) -> bool:
    area, common = cv2.intersectConvexConvex(a, b)
    return area > 0 and _thickness(common) > _SAME_LINE * min(_thickness(a), _thickness(b))


def _thickness(corners: NDArray[Any]) -> float:
    return float(min(cv2.minAreaRect(corners)[1]))


def _components(linked: NDArray[np.bool_]) -> list[list[int]]:
    """Return the connected groups of a symmetric relation."""
    unseen = set(range(len(linked)))
    groups = []
    while unseen:
        group, frontier = [], [unseen.pop()]
        while frontier:
            node = frontier.pop()
            group.append(node)
            neighbours = unseen.intersection(np.flatnonzero(linked[node]).tolist())
            unseen -= neighbours
            frontier.extend(neighbours)
        groups.append(sorted(group))
    return groups


def _around(parts: list[Quad]) -> Quad:
    if len(parts) == 1:
        return parts[0]
    corners = cv2.boxPoints(cv2.minAreaRect(np.concatenate(parts)))
    # Clockwise from the top left, as engines return them: the two leftmost first, then the two rightmost.
    by_x = corners[np.argsort(corners[:, 0], kind="stable")]
    left, right = (side[np.argsort(side[:, 1])] for side in (by_x[:2], by_x[2:]))
    return np.array([left[0], right[0], right[1], left[1]], dtype=np.float32)
