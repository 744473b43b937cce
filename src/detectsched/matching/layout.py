"""Which lines of an image run on in the next: a paragraph that wrapped, or a line that was read in several boxes."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from detectsched.detection import Box, Text

# How far apart, in heights of the smaller line, the lines of one wrapped paragraph may be. Chat bubbles and web pages
# are set with 0.2 to 0.8 between the boxes; separate bubbles and list rows stand further apart.
_GAP: Final = 0.9
# How far, in the same unit, their left edges may differ, and how far a wrapped line may end before the next.
_EDGE: Final = 1.0
# Lines of one paragraph are of one font size; boxes of the same font differ with the glyphs they hold.
_SIZE_RATIO: Final = 1.6
# Boxes of one line overlap vertically by most of their height, and stand about a character apart at most.
_OVERLAP: Final = 0.6
_BESIDE: Final = 1.2


def soft_breaks(text: Text) -> list[int]:
    """Return the offsets in ``text.content`` of line breaks that only the layout, or the engine, put there."""
    return [
        start - 1
        for (one, next_one), start in zip(pairwise(text.lines), text.starts[1:], strict=True)
        if wrapped(one.box, next_one.box) or beside(one.box, next_one.box)
    ]


def wrapped(above: Box, below: Box) -> bool:
    """Tell from the boxes of two successive lines whether the second continues a paragraph that wrapped.

    It does if both are of one size and start at one edge, the second is close below, and the first ran to where the
    paragraph ends.
    """
    unit = _unit(above, below)
    return (
        unit > 0
        and -0.5 * unit <= below.top - above.bottom <= _GAP * unit
        and abs(below.left - above.left) <= _EDGE * unit
        and above.right >= below.right - _EDGE * unit
    )


def beside(left: Box, right: Box) -> bool:
    """Tell whether the second box continues the first on the same line."""
    unit = _unit(left, right)
    overlap = min(left.bottom, right.bottom) - max(left.top, right.top)
    return unit > 0 and overlap >= _OVERLAP * unit and -0.5 * unit <= right.left - left.right <= _BESIDE * unit


def _unit(one: Box, other: Box) -> int:
    """Return the smaller height; 0 where the two are not of one size."""
    smaller, larger = sorted((one.bottom - one.top, other.bottom - other.top))
    return smaller if 0 < larger <= _SIZE_RATIO * smaller else 0
