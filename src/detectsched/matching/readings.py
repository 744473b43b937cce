"""The ways in which one text is read: as it stands, and across the line breaks that only the layout put there."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np

from detectsched.detection import Box, Text
from detectsched.matching.normalise import Normalised, normalise
from detectsched.matching.scripts import Kind, kind

# How far apart, in heights of the smaller line, the lines of one wrapped paragraph may be. Chat bubbles and web pages
# are set with 0.2 to 0.8 between the boxes; separate bubbles and list rows stand further apart.
_GAP: Final = 0.9
# How far, in the same unit, their left edges may differ, and how far a wrapped line may end before the next.
_EDGE: Final = 1.0
# Lines of one paragraph are of one font size; boxes of the same font differ with the glyphs they hold.
_SIZE_RATIO: Final = 1.6


def readings(text: Text) -> Iterator[Normalised]:
    """Yield the folded readings of ``text`` in which words are sought; a hit may be found in several.

    In a text read from an image, a paragraph that wraps breaks words of scripts without spaces anywhere (``身份`` /
    ``证``); those breaks are closed in the second reading. A line break of a plain text was typed: it stays a space.
    """
    strict = normalise(text.content)
    yield strict
    closed = _closed_breaks(text, strict)
    if closed:
        yield strict.without(closed)


def _closed_breaks(text: Text, strict: Normalised) -> list[int]:
    """Return where in ``strict.content`` the line breaks within words of scripts without spaces are."""
    breaks = [
        start - 1
        for (above, below), start in zip(pairwise(text.lines), text.starts[1:], strict=True)
        if wrapped(above.box, below.box)
    ]
    content = strict.content
    return [
        at
        for at in np.searchsorted(strict.starts, breaks).tolist()
        if 0 < at < len(content) - 1
        and kind(content[at - 1]) is Kind.UNSPACED
        and kind(content[at + 1]) is Kind.UNSPACED
    ]


def wrapped(above: Box, below: Box) -> bool:
    """Tell from the boxes of two successive lines whether the second continues a paragraph that wrapped.

    It does if both are of one size and start at one edge, the second is close below, and the first ran to where the
    paragraph ends.
    """
    heights = sorted((above.bottom - above.top, below.bottom - below.top))
    unit = heights[0]
    return (
        0 < heights[1] <= _SIZE_RATIO * unit
        and -0.5 * unit <= below.top - above.bottom <= _GAP * unit
        and abs(below.left - above.left) <= _EDGE * unit
        and above.right >= below.right - _EDGE * unit
    )
