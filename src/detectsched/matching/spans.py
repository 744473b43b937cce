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
    """Return the hits that a summary shows, from left to right: see `prominent_among`."""
    places = prominent_among([(hit.start, hit.end, hit.level) for hit in hits])
    return sorted((hits[place] for place in places), key=lambda hit: hit.start)


def prominent_among(places: Sequence[tuple[int, int, int]]) -> set[int]:
    """Return which of some ``(start, end, level)`` a summary shows: the longest, none of which overlap.

    Of those at one place the gravest is shown; of equals, the first.
    """
    shown: list[int] = []
    for place in sorted(range(len(places)), key=lambda one: (places[one][0], -places[one][1], -places[one][2])):
        start, end, _ = places[place]
        if not shown or start >= places[shown[-1]][1]:
            shown.append(place)
        elif end - start > places[shown[-1]][1] - places[shown[-1]][0]:
            shown[-1] = place
    return set(shown)


def masked(text: str, hits: Sequence[Hit]) -> str:
    """Return a text in which every prominent hit is replaced: by its replacement, or by as many asterisks."""
    parts: list[str] = []
    done = 0
    for hit in prominent(hits):
        parts += [text[done : hit.start], "*" * (hit.end - hit.start) if hit.replacement is None else hit.replacement]
        done = hit.end
    return "".join([*parts, text[done:]])
