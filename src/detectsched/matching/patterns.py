"""Word lists compiled for the search: one automaton for all lists that fold and read texts alike."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import ahocorasick

from detectsched.errors import InvalidRequest
from detectsched.matching.folding import Folding
from detectsched.matching.forms import pinyin_forms, split_forms
from detectsched.matching.normalise import normalise_all
from detectsched.matching.relaxed import Leniency, Spelling, ordinary, spell
from detectsched.wordlist import ListContent, ListOptions, Mode, Word

_MOST_WORDS: Final = 100_000
"""Words of one automaton: of more, several are made and searched one after the other. Taking one over from the process
that compiled it holds the GIL for as long as it has words, 25 ms for so many."""


class Entry(NamedTuple):
    """A word of some list in one of its forms; ``number`` counts the words of all lists, in their order."""

    number: int
    whole: bool
    """Whether it must begin and end where words do."""


class Group:
    """The words of all lists that share a folding and a leniency.

    The keys of the automaton are folded words; the strict reading of a text is searched for those that stand for
    `strict` entries, the relaxed one for `relaxed` ones. It holds arrays instead of objects, so that a hundred thousand
    words come out of the compiling process in milliseconds. It never changes, so threads may share it.
    """

    __slots__ = ("_lengths", "_odd", "_relaxed", "_relaxed_from", "_strict", "_strict_from", "automaton", "folding",
                 "leniency", "spaced")  # fmt: skip

    def __init__(
        self,
        folding: Folding,
        leniency: Leniency,
        strict: dict[str, list[Entry]],
        relaxed: dict[str, list[tuple[Entry, Spelling]]],
    ) -> None:
        self.folding = folding
        self.leniency = leniency
        self.automaton: Any = ahocorasick.Automaton(ahocorasick.STORE_INTS)
        self._lengths = array("H")
        self._strict, self._strict_from = array("I"), array("I", [0])
        self._relaxed, self._relaxed_from = array("I"), array("I", [0])
        self._odd: dict[int, Spelling] = {}
        """Spellings of relaxed entries that are not ordinary, by place in ``_relaxed``."""
        self.spaced = False
        """Whether some word has spaces that a text may lack."""
        for key in strict | relaxed:
            self.automaton.add_word(key, len(self._lengths))
            self._lengths.append(len(key))
            self._strict.extend(map(_packed, strict.get(key, ())))
            for entry, spelling in relaxed.get(key, ()):
                if not spelling.ordinary:
                    self._odd[len(self._relaxed)] = spelling
                    self.spaced = self.spaced or bool(spelling.spaced)
                self._relaxed.append(_packed(entry))
            self._strict_from.append(len(self._strict))
            self._relaxed_from.append(len(self._relaxed))
        self.automaton.make_automaton()

    def length(self, key: int) -> int:
        """Return the number of characters of a key."""
        return self._lengths[key]

    def strict(self, key: int) -> Iterator[Entry]:
        """Yield the words that a key stands for in a strict reading."""
        for at in range(self._strict_from[key], self._strict_from[key + 1]):
            yield _unpacked(self._strict[at])

    def relaxed(self, key: int) -> Iterator[tuple[Entry, Spelling]]:
        """Yield the words that a key stands for in a relaxed reading."""
        for at in range(self._relaxed_from[key], self._relaxed_from[key + 1]):
            yield _unpacked(self._relaxed[at]), self._odd.get(at) or ordinary(self._lengths[key])


def _packed(entry: Entry) -> int:
    return entry.number << 1 | entry.whole


def _unpacked(packed: int) -> Entry:
    return Entry(packed >> 1, bool(packed & 1))


def compile_lists(contents: Sequence[ListContent]) -> tuple[Group, ...]:
    """Compile the words of some lists; of words spelt the same in one list, the first counts.

    Raises:
        InvalidRequest: a word is empty, or holds nothing but spaces and invisible characters.

    """
    kinds: dict[tuple[Folding, Leniency], list[tuple[int, Word, ListOptions]]] = {}
    before = 0
    for content in contents:
        options = content.options
        alike = kinds.setdefault((_folding_of(options), Leniency.of(options)), [])
        first: set[tuple[str, bool]] = set()
        for number, word in enumerate(content.words, before):
            if (word.text, word.allow) not in first:
                first.add((word.text, word.allow))
                alike.append((number, word, options))
        before += len(content.words)
    return tuple(
        _group(*kind, words[first : first + _MOST_WORDS])
        for kind, words in kinds.items()
        for first in range(0, len(words), _MOST_WORDS)
    )


def _folding_of(options: ListOptions) -> Folding:
    return Folding(options.homoglyphs, options.numerals, options.confusions)


def _group(folding: Folding, leniency: Leniency, words: Sequence[tuple[int, Word, ListOptions]]) -> Group:
    strict: dict[str, list[Entry]] = {}
    relaxed: dict[str, list[tuple[Entry, Spelling]]] = {}
    entries = list(_entries(words))
    folded = normalise_all([text for text, _ in entries], folding)
    for (text, entry), content in zip(entries, map(str.strip, folded), strict=True):
        if not content:
            raise InvalidRequest(f"the word {text!r} holds nothing that can be seen", field="text")
        strict.setdefault(content, []).append(entry)
        if spelled := spell(content, leniency):
            key, spelling = spelled
            relaxed.setdefault(key, []).append((entry, spelling))
    return Group(folding, leniency, strict, relaxed)


def _entries(words: Iterable[tuple[int, Word, ListOptions]]) -> Iterator[tuple[str, Entry]]:
    """Yield every form of every word."""
    for number, word, options in words:
        yield word.text, Entry(number, (word.mode or options.mode) is Mode.WORD)
        forms: set[str] = set()
        if options.pinyin:
            forms |= pinyin_forms(word.text)
        if options.split:
            forms |= split_forms(word.text)
        # Pinyin is written in a script with words, whatever the list says of its own.
        for form in sorted(forms):
            yield form, Entry(number, True)
