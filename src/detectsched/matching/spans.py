"""Stretches of a text, and questions about them that take logarithmic time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate

from detectsched.detection import Hit


class Spans:
    """A set of stretches ``(start, end)``, none of them empty."""

    __slots__ = ("_furthest", "_starts")

    def __init__(self, spans: Iterable[tuple[int, int]]) -> None:
        ordered = sorted(spans)
        self._starts = [start for start, _ in ordered]
        self._furthest = list(accumulate((end for _, end in ordered), max))

    def touch(self, start: int, end: int) -> bool:
        """Tell whether one of them has a character in common with a stretch."""
        before = bisect_left(self._starts, end)
        return before > 0 and self._furthest[before - 1] > start

    def hold(self, start: int, end: int) -> bool:
        """Tell whether a stretch lies inside one of them."""
        before = bisect_right(self._starts, start)
        return before > 0 and self._furthest[before - 1] >= end


def prominent(hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits that a summary shows: from left to right the longest ones, none of which overlap.

    Of hits at one place the gravest is shown.
    """
    shown: list[Hit] = []
    for hit in sorted(hits, key=lambda one: (one.start, -one.end, -one.level)):
        if not shown or hit.start >= shown[-1].end:
            shown.append(hit)
        elif hit.end - hit.start > shown[-1].end - shown[-1].start:
            shown[-1] = hit
    return shown


def masked(text: str, hits: Sequence[Hit]) -> str:
    """Return a text in which every prominent hit is replaced: by its replacement, or by as many asterisks."""
    parts: list[str] = []
    done = 0
    for hit in prominent(hits):
        parts += [text[done : hit.start], "*" * (hit.end - hit.start) if hit.replacement is None else hit.replacement]
        done = hit.end
    return "".join([*parts, text[done:]])
