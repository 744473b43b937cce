"""Finding all of many keys in a text: Aho-Corasick automata of `ahocorasick_rs`, each of a part of the keys.

Building one holds the GIL: 12 ms for as many keys as a part has, 0.3 s for a hundred thousand at once. A hundred
thousand keys in parts, searched one after the other, take a fifth of the time that pyahocorasick's one automaton takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from ahocorasick_rs import AhoCorasick, Implementation, MatchKind

PART: Final = 8_000
"""Keys of one part."""
_MOST_HELD: Final = 200_000
"""Finds of one part that are held at once; they come as a list."""
_LONGEST_SLICE: Final = 16_384
_SHORTEST_SLICE: Final = 256


class Part:
    """Some keys, built; it never changes, so threads may share it."""

    __slots__ = ("_automaton", "count", "longest", "slice")

    def __init__(self, keys: Sequence[str]) -> None:
        """Build at most `PART` keys, none of them empty and no two the same."""
        # The implementation is the smallest of those that are searched fast: 18 MB for a hundred thousand words.
        self._automaton = AhoCorasick(
            keys, matchkind=MatchKind.Standard, store_patterns=False, implementation=Implementation.ContiguousNFA
        )
        lengths = set(map(len, keys))
        self.count = len(keys)
        self.longest = max(lengths)
        # No more keys end at one place than there are lengths.
        self.slice = max(_SHORTEST_SLICE, min(_LONGEST_SLICE, _MOST_HELD // len(lengths)))

    def find(self, content: str) -> list[tuple[int, int, int]]:
        """Return number, start and end of every key in a text without halves of surrogate pairs."""
        return self._automaton.find_matches_as_indexes(content, overlapping=True)


class Automaton:
    """The parts of a set of keys; keys are numbered through all of them."""

    __slots__ = ("_longest", "_parts", "_slice")

    def __init__(self, parts: Iterable[Part]) -> None:
        self._parts = tuple(parts)
        self._longest = max((part.longest for part in self._parts), default=1)
        self._slice = min((part.slice for part in self._parts), default=_LONGEST_SLICE)

    @classmethod
    def of(cls, keys: Sequence[str]) -> Automaton:
        """Build keys; sorted ones make smaller automata."""
        return cls(Part(keys[first : first + PART]) for first in range(0, len(keys), PART))

    def find(self, content: str) -> Iterator[tuple[int, int, int]]:
        """Yield number, start and end of every key that stands in a text, overlapping ones too.

        Stretch by stretch from left to right, within a stretch in any order. A text is not searched further than what
        is asked for.
        """
        for low in range(0, len(content), self._slice):
            # A key that begins in this stretch may end in the next.
            stretch = content[low : low + self._slice + self._longest - 1]
            first = 0
            for part in self._parts:
                for key, start, end in part.find(stretch):
                    if start < self._slice:
                        yield first + key, low + start, low + end
                first += part.count
