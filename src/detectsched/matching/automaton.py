"""Finding all of many keys in a text: Aho-Corasick automata of one of two libraries, each of a part of the keys.

pyahocorasick's can be handed from one process to another, so they are built where lists are compiled; to take one over
holds the GIL for as long as it has keys, 25 ms for a hundred thousand. Those of ahocorasick_rs are built where they are
used, which holds the GIL for 12 ms for eight thousand keys; in parts of that size, searched one after the other, a
hundred thousand keys take a third of the time.
"""

from __future__ import annotations

import importlib.util
import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

import ahocorasick

from detectsched.errors import ConfigurationError
from detectsched.wordlist import SearchLibrary

PART: Final = {SearchLibrary.PYAHOCORASICK: 100_000, SearchLibrary.AHOCORASICK_RS: 8_000}
"""Keys of one part."""
_MOST_HELD: Final = 200_000
"""Finds of one part of ahocorasick_rs that are held at once; they come as a list."""
_LONGEST_SLICE: Final = 16_384
_SHORTEST_SLICE: Final = 256


class Part(Protocol):
    """Some keys, built: at least one, none empty, no two the same. It never changes, so threads may share it."""

    count: int
    longest: int
    """Characters of its longest key."""
    slice: int
    """Most characters of a text that it is to search at once."""

    def find(self, content: str) -> Iterable[tuple[int, int, int]]:
        """Return number, start and end of every key in a text without halves of surrogate pairs."""
        ...


class HandedPart:
    """A part of pyahocorasick; it can be pickled."""

    __slots__ = ("_automaton", "_lengths", "count", "longest", "slice")

    def __init__(self, keys: Sequence[str]) -> None:
        self._lengths = array("H", map(len, keys))
        self.count = len(keys)
        self.longest = max(self._lengths)
        self.slice = sys.maxsize
        self._automaton = ahocorasick.Automaton(ahocorasick.STORE_INTS)
        for number, key in enumerate(keys):
            self._automaton.add_word(key, number)
        self._automaton.make_automaton()

    def find(self, content: str) -> Iterator[tuple[int, int, int]]:
        """Yield number, start and end of every key."""
        # Not iter_long: it misses matches (pyahocorasick issue 189).
        for last, key in self._automaton.iter(content):
            yield key, last + 1 - self._lengths[key], last + 1


class LocalPart:
    """A part of ahocorasick_rs, which comes with the extra `bulk`; it stays where it was built."""

    __slots__ = ("_automaton", "count", "longest", "slice")

    def __init__(self, keys: Sequence[str]) -> None:
        from ahocorasick_rs import AhoCorasick, Implementation, MatchKind  # noqa: PLC0415 - an extra

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
        """Return number, start and end of every key."""
        return self._automaton.find_matches_as_indexes(content, overlapping=True)


def build(keys: Sequence[str], library: SearchLibrary) -> Part:
    """Build a part of no more keys than `PART` says."""
    return HandedPart(keys) if library is SearchLibrary.PYAHOCORASICK else LocalPart(keys)


def parted(keys: Sequence[str], library: SearchLibrary) -> Iterator[Sequence[str]]:
    """Yield keys as many at a time as a part has; sorted ones make smaller automata."""
    for first in range(0, len(keys), PART[library]):
        yield keys[first : first + PART[library]]


def require(library: SearchLibrary) -> None:
    """Refuse a library that is not there.

    Raises:
        ConfigurationError: it is not installed.
    """
    if library is SearchLibrary.AHOCORASICK_RS and importlib.util.find_spec("ahocorasick_rs") is None:
        raise ConfigurationError(
            "ahocorasick_rs is not installed: pip install 'detectsched[bulk]', or set "
            "DETECTSCHED_RUNNER_SEARCH_LIBRARY=pyahocorasick"
        )


class Automaton:
    """The parts of a set of keys; keys are numbered through all of them."""

    __slots__ = ("_longest", "_parts", "_slice")

    def __init__(self, parts: Iterable[Part]) -> None:
        self._parts = tuple(parts)
        self._longest = max((part.longest for part in self._parts), default=1)
        self._slice = min((part.slice for part in self._parts), default=sys.maxsize)

    @classmethod
    def of(cls, keys: Sequence[str], library: SearchLibrary) -> Automaton:
        """Build keys."""
        return cls(build(some, library) for some in parted(keys, library))

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
