"""What every engine has in common: search in tiles, join, cut out, recognise, put in reading order.

An engine brings a detector and a recogniser. This module imports OpenCV, which comes with the engines' extras, so only
engines import it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from detectsched.detection import Box, Line
from detectsched.ocr.crops import cut_line, glue, pieces
from detectsched.ocr.engine import AnswerCountError
from detectsched.ocr.tiles import THRIFTY_SIDE, TILE_SIDE, Quad, join, split

Image = NDArray[np.uint8]
Detect = Callable[[Image], Sequence[Quad]]
"""From an image (BGR, height × width × 3) to the corners of its lines, in its pixels."""
Recognise = Callable[[Sequence[Image]], Sequence[tuple[str, float]]]
"""From the images of lines to a text and a score (0 to 1) for each, in the same order."""

_DOUBTFUL: Final = 0.9
"""A line that scores less is also read upside down, and the better reading counts.

Measured on both engines with 68 short lines, two of them only capital letters that read either way: upright lines
score 0.9 and more, turned ones less but for such words. So pages that stand on their head or lie on their side are
read without a model that judges orientation, and upright ones pay nothing.
"""


def read_lines(
    image: Image, detect: Detect, recognise: Recognise, *, min_score: float, thrifty: bool = False
) -> tuple[Line, ...]:
    """Read an image of any size.

    Args:
        image: height × width × 3, BGR.
        detect: finds lines in a tile.
        recognise: reads lines.
        min_score: lines the recogniser is less sure of are dropped.
        thrifty: search smaller tiles and recognise one line at a time: slower, with a fraction of the memory.

    Returns:
        The lines in reading order, their boxes in pixels of ``image``.

    Raises:
        AnswerCountError: the recogniser's answers do not match the lines one to one.
    """
    side = THRIFTY_SIDE if thrifty else TILE_SIDE
    quads = _find(image, detect, side)
    read = _read_either_way([cut_line(image, quad) for quad in quads], _one_by_one(recognise) if thrifty else recognise)
    return _lines(image, quads, read, min_score)


def read_many_lines(
    images: Sequence[Image], detect: Detect, recognise: Recognise, *, min_score: float
) -> list[tuple[Line, ...]]:
    """Read images of any sizes, with the lines of all of them recognised together; arguments as of `read_lines`.

    Returns:
        The lines of each image, in the order of the images.

    Raises:
        AnswerCountError: the recogniser's answers do not match the lines one to one.
    """
    found = [_find(image, detect, TILE_SIDE) for image in images]
    crops = [cut_line(image, quad) for image, quads in zip(images, found, strict=True) for quad in quads]
    read = iter(_read_either_way(crops, recognise))
    return [
        _lines(image, quads, list(islice(read, len(quads))), min_score)
        for image, quads in zip(images, found, strict=True)
    ]


def _find(image: Image, detect: Detect, side: int) -> list[Quad]:
    height, width = image.shape[:2]
    found = [
        [
            np.asarray(quad, dtype=np.float32) + np.array([tile.left, tile.top], dtype=np.float32)
            for quad in detect(np.ascontiguousarray(image[tile.top : tile.bottom, tile.left : tile.right]))
        ]
        for tile in split(width, height, side)
    ]
    return in_reading_order(join(found))


def _lines(
    image: Image, quads: Sequence[Quad], read: Sequence[tuple[str, float]], min_score: float
) -> tuple[Line, ...]:
    height, width = image.shape[:2]
    return tuple(
        Line(text, _box(quad, width, height), min(1.0, max(0.0, score)))
        for quad, (text, score) in zip(quads, read, strict=True)
        if text.strip() and score >= min_score
    )


def _one_by_one(recognise: Recognise) -> Recognise:
    return lambda crops: [answer for crop in crops for answer in recognise([crop])]


def _read_either_way(crops: Sequence[Image], recognise: Recognise) -> list[tuple[str, float]]:
    """Return a text and a score for each line, trying doubtful ones upside down as well."""
    read = _read(crops, recognise)
    doubtful = [i for i, (_, score) in enumerate(read) if score < _DOUBTFUL]
    turned = _read([np.ascontiguousarray(np.rot90(crops[i], 2)) for i in doubtful], recognise)
    for i, other in zip(doubtful, turned, strict=True):
        read[i] = max(read[i], other, key=lambda reading: reading[1])
    return read


def _read(crops: Sequence[Image], recognise: Recognise) -> list[tuple[str, float]]:
    """Return a text and a score for each line; one that is read in pieces scores like its worst."""
    cut = [pieces(crop) for crop in crops]
    flat = [piece for line in cut for piece in line]
    answers = iter(recognise(flat) if flat else ())
    read = []
    try:
        for line in cut:
            parts = [next(answers) for _ in line]
            read.append((glue([text for text, _ in parts]), min(score for _, score in parts)))
    except StopIteration:
        raise AnswerCountError(f"{len(flat)} lines went in, fewer texts came out") from None
    if next(answers, None) is not None:
        raise AnswerCountError(f"{len(flat)} lines went in, more texts came out")
    return read


def in_reading_order(quads: Sequence[Quad]) -> list[Quad]:
    """Sort lines into rows from top to bottom, each from left to right.

    A line belongs to the row above it when its middle is higher than that row's first line's lower edge by more than a
    quarter of its height: boxes of one row differ by a few pixels, lines of text by a whole height.
    """
    rows: list[list[Quad]] = []
    for quad in sorted(quads, key=lambda quad: float(quad[:, 1].mean())):
        if rows:
            top, bottom = rows[-1][0][:, 1].min(), rows[-1][0][:, 1].max()
            if quad[:, 1].mean() < bottom - (bottom - top) / 4:
                rows[-1].append(quad)
                continue
        rows.append([quad])
    return [quad for row in rows for quad in sorted(row, key=lambda quad: float(quad[:, 0].min()))]


def _box(quad: Quad, width: int, height: int) -> Box:
    left, top = np.floor(quad.min(axis=0)).astype(int).tolist()
    right, bottom = np.ceil(quad.max(axis=0)).astype(int).tolist()
    # At least one pixel each way, also for a line that was found at the very edge.
    left, top = min(max(left, 0), width - 1), min(max(top, 0), height - 1)
    return Box(left, top, min(max(right, left + 1), width), min(max(bottom, top + 1), height))
