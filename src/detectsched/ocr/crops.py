"""Cuts lines of text out of an image, and long lines into pieces that a recogniser can read."""

from __future__ import annotations

from typing import Final

import cv2
import numpy as np
from numpy.typing import NDArray

from detectsched.ocr.tiles import Quad

_UPRIGHT_RATIO: Final = 1.5
"""A crop this many times taller than wide is a line that runs downwards: PaddleOCR turns it by 90 degrees, so do we."""
LONGEST_RATIO: Final = 40
"""Longest line, as a multiple of its height, that is recognised in one piece.

PaddleX squeezes what is wider than 3200 pixels at its 48 pixels of height, 67 times, and letters are lost; accuracy
falls before that.
"""
_CUT_WINDOW: Final = 10
"""Where a long line may be cut, as a multiple of its height: far enough to meet the end of a word."""


def cut_line(image: NDArray[np.uint8], quad: Quad) -> NDArray[np.uint8]:
    """Return the part of the image inside four corners, straightened; at least one pixel each way."""
    top_left, top_right, bottom_right, bottom_left = quad
    width = max(1, round(max(_distance(top_left, top_right), _distance(bottom_left, bottom_right))))
    height = max(1, round(max(_distance(top_left, bottom_left), _distance(top_right, bottom_right))))
    target = np.array([[0, 0], [width, 0], [width, height], [0, height]], dtype=np.float32)
    turned = cv2.warpPerspective(
        image,
        cv2.getPerspectiveTransform(np.ascontiguousarray(quad, dtype=np.float32), target),
        (width, height),
        borderMode=cv2.BORDER_REPLICATE,
        flags=cv2.INTER_CUBIC,
    )
    if height >= _UPRIGHT_RATIO * width:
        turned = np.rot90(turned)
    return np.ascontiguousarray(turned, dtype=np.uint8)


def pieces(crop: NDArray[np.uint8]) -> list[NDArray[np.uint8]]:
    """Cut a line that is too long for a recogniser where it is emptiest; a line of usual length stays whole."""
    height, width = crop.shape[:2]
    longest, window = LONGEST_RATIO * height, _CUT_WINDOW * height
    if width <= longest:
        return [crop]
    unrest = np.abs(np.diff(crop.astype(np.int16).mean(axis=2), axis=0)).sum(axis=0)
    # A single empty column is found inside letters too; a blank as wide as a fifth of the height parts words.
    blank = max(1, height // 5)
    smooth = np.convolve(unrest, np.ones(blank), mode="same")
    cuts = [0]
    while width - cuts[-1] > longest:
        start = cuts[-1] + longest - window
        cuts.append(start + int(np.argmin(smooth[start : start + window])))
    return [np.ascontiguousarray(crop[:, a:b]) for a, b in zip(cuts, [*cuts[1:], width], strict=True)]


def glue(texts: list[str]) -> str:
    """Join the pieces of a line; the blank at which Latin words were parted comes back, Chinese needs none."""
    whole = ""
    for text in texts:
        apart = whole[-1:].isascii() and whole[-1:].isalnum() and text[:1].isascii() and text[:1].isalnum()
        whole += (" " if apart else "") + text
    return whole


def _distance(a: NDArray[np.float32], b: NDArray[np.float32]) -> float:
    return float(np.hypot(*(a - b)))
