"""Word lists compiled for the search: one automaton for all lists that fold and read texts alike."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from detectsched.errors import InvalidRequest
from detectsched.matching.automaton import Automaton
from detectsched.matching.folding import Folding
from detectsched.matching.forms import pinyin_forms, split_forms
from detectsched.matching.normalise import normalise_all
from detectsched.matching.relaxed import Leniency, Spelling, ordinary, spell
from detectsched.wordlist import ListContent, ListOptions, Mode, SearchLibrary, Word


class Entry(NamedTuple):
    """A word of some list in one of its forms; ``number`` counts the words of all lists, in their order."""

    number: int
    whole: bool
    """Whether it must begin and end where words do."""


class Meanings:
    """What keys stand for, by their numbers: words in a strict reading, and in a relaxed one.

    It holds arrays and strings instead of objects, so that a hundred thousand words come out of the compiling process
    in milliseconds.
    """

    __slots__ = ("odd", "relaxed", "relaxed_from", "spaced", "strict", "strict_from")

    def __init__(self) -> None:
        self.strict, self.strict_from = array("I"), array("I", [0])
        self.relaxed, self.relaxed_from = array("I"), array("I", [0])
        self.odd: dict[int, str] = {}
        """The folded words whose spelling is not ordinary, by place in ``relaxed``."""
        self.spaced = False
        """Whether some word has spaces that a text may lack."""

    def add(self, strict: Iterable[Entry], relaxed: Iterable[tuple[Entry, str, Spelling]]) -> None:
        """Say what the next key stands for; of a relaxed word also its folded form and how that is spelt."""
        self.strict.extend(map(_packed, strict))
        for entry, word, spelling in relaxed:
            if not spelling.ordinary:
                self.odd[len(self.relaxed)] = word
                self.spaced = self.spaced or bool(spelling.spaced)
            self.relaxed.append(_packed(entry))
        self.strict_from.append(len(self.strict))
        self.relaxed_from.append(len(self.relaxed))


class Group:
    """The words of all lists that share a folding and a leniency.

    The keys of the automaton are folded words; the strict reading of a text is searched for those that stand for
    `strict` entries, the relaxed one for `relaxed` ones. It never changes, so threads may share it.
    """

    __slots__ = ("_meanings", "automaton", "folding", "leniency")

    def __init__(self, folding: Folding, leniency: Leniency, meanings: Meanings, automaton: Automaton) -> None:
        self.folding = folding
        self.leniency = leniency
        self.automaton = automaton
        self._meanings = meanings

    @property
    def spaced(self) -> bool:
        """Whether some word has spaces that a text may lack."""
        return self._meanings.spaced

    def strict(self, key: int) -> Iterator[Entry]:
        """Yield the words that a key stands for in a strict reading."""
        meanings = self._meanings
        for at in range(meanings.strict_from[key], meanings.strict_from[key + 1]):
            yield _unpacked(meanings.strict[at])

    def relaxed(self, key: int, length: int) -> Iterator[tuple[Entry, Spelling]]:
        """Yield the words that a key of so many characters stands for in a relaxed reading."""
        meanings = self._meanings
        for at in range(meanings.relaxed_from[key], meanings.relaxed_from[key + 1]):
            word = meanings.odd.get(at)
            yield _unpacked(meanings.relaxed[at]), ordinary(length) if word is None else _spelling(word, self.leniency)


class Compiled(NamedTuple):
    """A group whose automaton is still to be built."""

    folding: Folding
    leniency: Leniency
    meanings: Meanings
    keys: list[str]
    """By their numbers."""

    def group(self, library: SearchLibrary) -> Group:
        """Build it."""
        return Group(self.folding, self.leniency, self.meanings, Automaton.of(self.keys, library))


@lru_cache(maxsize=10_000)
def _spelling(word: str, leniency: Leniency) -> Spelling:
    """Return a spelling anew: as objects they would have to be carried from one process to another."""
    spelled = spell(word, leniency)
    assert spelled is not None  # noqa: S101 - it was not when the word was compiled
    return spelled[1]


def _packed(entry: Entry) -> int:
    return entry.number << 1 | entry.whole


def _unpacked(packed: int) -> Entry:
    return Entry(packed >> 1, bool(packed & 1))


def compile_lists(
    contents: Sequence[ListContent], library: SearchLibrary = SearchLibrary.PYAHOCORASICK
) -> tuple[Group, ...]:
    """Compile the words of some lists; of words spelt the same in one list, the first counts.

    Raises:
        InvalidRequest: a word is empty, or holds nothing but spaces and invisible characters.

    """
    return tuple(compiled.group(library) for compiled in compile_words(contents))


def compile_words(contents: Sequence[ListContent]) -> tuple[Compiled, ...]:
    """Do all of `compile_lists` but the automata."""
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
    return tuple(_compiled(*kind, words) for kind, words in kinds.items() if words)


def _folding_of(options: ListOptions) -> Folding:
    return Folding(options.homoglyphs, options.numerals, options.confusions)


def _compiled(folding: Folding, leniency: Leniency, words: Sequence[tuple[int, Word, ListOptions]]) -> Compiled:
    strict: dict[str, list[Entry]] = {}
    relaxed: dict[str, list[tuple[Entry, str, Spelling]]] = {}
    entries = list(_entries(words))
    folded = normalise_all([text for text, _ in entries], folding)
    for (text, entry), content in zip(entries, map(str.strip, folded), strict=True):
        if not content:
            raise InvalidRequest(f"the word {text!r} holds nothing that can be seen", field="text")
        strict.setdefault(content, []).append(entry)
        if spelled := spell(content, leniency):
            key, spelling = spelled
            relaxed.setdefault(key, []).append((entry, content, spelling))
    meanings = Meanings()
    # Sorted, keys that begin alike come into the same part, which is smaller for it.
    keys = sorted(strict | relaxed)
    for key in keys:
        meanings.add(strict.get(key, ()), relaxed.get(key, ()))
    return Compiled(folding, leniency, meanings, keys)


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
