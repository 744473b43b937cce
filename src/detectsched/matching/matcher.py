"""Finding the words of word lists in a text, with exact places."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import ahocorasick

from detectsched.detection import Hit, ListVersion, Text, Word
from detectsched.errors import InvalidRequest
from detectsched.matching.normalise import normalise_all
from detectsched.matching.readings import readings
from detectsched.matching.scripts import Kind, kind, one_word


class _Pattern(NamedTuple):
    """One folded word as the automaton holds it; ``entries`` are the words, of whatever list, that fold to it."""

    length: int
    bounded_left: bool
    bounded_right: bool
    entries: tuple[int, ...]


class Matcher:
    """The compiled form of some published word lists; it never changes, so threads may share it.

    Building is linear in the words (100,000: about a second, 0.3 s of it with the GIL held): an event loop builds in a
    thread and swaps. Text and words are folded alike (``folding``). A word whose edge is a letter or digit of a
    script written with spaces is found only where a word begins or ends (``scripts``); other words are found anywhere.
    """

    __slots__ = ("_automaton", "_entries", "lists")

    lists: tuple[ListVersion, ...]
    """The versions that judge, for ``Detection.lists``."""

    def __init__(self, lists: Mapping[ListVersion, Sequence[Word]]) -> None:
        """Compile ``lists``; of words spelt the same in one list, the first counts.

        Raises:
            InvalidRequest: a word is empty, or holds nothing but spaces and invisible characters.

        """
        self.lists = tuple(lists)
        self._entries = tuple((version, word) for version, words in lists.items() for word in _distinct(words))
        self._automaton = _automaton(self._entries)

    def match(self, text: Text) -> tuple[Hit, ...]:
        """Return every hit, overlapping ones included, ordered by place, then by list and word as they were given.

        One word of one list is reported once per place. The box of a hit is that of the line, or lines, it stands in.
        """
        if self._automaton is None:
            return ()
        found: set[tuple[int, int, int]] = set()
        for reading in readings(text):
            content = reading.content
            # Not iter_long: it misses matches (pyahocorasick issue 189).
            for last, pattern in self._automaton.iter(content):
                start, end = last + 1 - pattern.length, last + 1
                if pattern.bounded_left and start > 0 and one_word(content[start - 1], content[start]):
                    continue
                if pattern.bounded_right and end < len(content) and one_word(content[last], content[end]):
                    continue
                found.update((*reading.span(start, end), entry) for entry in pattern.entries)
        return tuple(self._hit(text, *place) for place in sorted(found))

    def _hit(self, text: Text, start: int, end: int, entry: int) -> Hit:
        version, word = self._entries[entry]
        return Hit(
            word=word.text,
            category=word.category,
            level=word.level,
            start=start,
            end=end,
            matched=text.content[start:end],
            list=version,
            box=text.box_of(start, end),
        )


def _distinct(words: Sequence[Word]) -> Iterable[Word]:
    first: dict[str, Word] = {}
    for word in words:
        first.setdefault(word.text, word)
    return first.values()


def _automaton(entries: Sequence[tuple[ListVersion, Word]]) -> Any:
    """Return the automaton over the folded words; None without words, for pyahocorasick cannot search with none."""
    by_content: dict[str, list[int]] = {}
    folded = normalise_all([word.text for _, word in entries])
    for index, ((version, word), content) in enumerate(zip(entries, folded, strict=True)):
        if not content.strip():
            raise InvalidRequest(
                f"the word {word.text!r} of list {version.list_id} holds nothing that can be seen", field="text"
            )
        by_content.setdefault(content.strip(), []).append(index)
    if not by_content:
        return None
    automaton = ahocorasick.Automaton()
    for content, indices in by_content.items():
        bounded_left = kind(content[0]) is Kind.SPACED
        bounded_right = kind(content[-1]) is Kind.SPACED
        automaton.add_word(content, _Pattern(len(content), bounded_left, bounded_right, tuple(indices)))
    automaton.make_automaton()
    return automaton
