"""Reading a text past noise and stretched characters.

`Relaxed` is the second way in which a text is read, beside the strict one: noise between characters is left out, and
characters that repeat themselves stand once. Words are sought in it in the same form (`Spelling`), and what is found is
checked against the rules of a list (`Relaxed.place`), because leaving out is not enough: 口交 does not stand in
``路口，交通``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, groupby
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from detectsched.matching.noise import BITS, LINE_BREAKS, SENTENCE, SPACE, mask_of, noise_table
from detectsched.matching.normalise import Normalised, decode, encode
from detectsched.matching.scripts import Kind, inside_word, kind, one_word
from detectsched.wordlist import ListOptions, Noise, Repeats

_BREAK_CODES: Final = np.array(list(map(ord, LINE_BREAKS)), np.uint32)
_WALL: Final = ord("\n")
"""Stands in a relaxed text where nothing goes on; no folded word holds it."""
_REPEATED: Final = re.compile(r"(.)\1")
_STRETCHED_FROM: Final = {Repeats.OFF: 1 << 30, Repeats.STRETCHED: 3, Repeats.ANY: 2}
_MOST_JUDGED: Final = 1000
"""Characters of one place that are looked at; one with more is a character repeated over pages."""
_SPELLED_OUT_FROM: Final = 3
"""Characters of a word that may be spelled out (``a s s``); of two characters too many stand apart by chance."""


class Leniency(NamedTuple):
    """The part of a list's options that decides how a text is read past its noise."""

    noise: int
    max_gap: int
    across_lines: bool
    stretched_from: int

    @classmethod
    def of(cls, options: ListOptions) -> Leniency:
        """Return that of a list."""
        noise = mask_of(options.noise) if options.max_gap else 0
        return cls(noise, options.max_gap, options.across_lines, _STRETCHED_FROM[options.repeats])

    @property
    def passed_over(self) -> int:
        """The kinds of noise that are left out, those included that only spelled-out words may hold."""
        return self.noise | SENTENCE if self.noise else 0


class Spelling(NamedTuple):
    """A word as it is sought in a relaxed text: each character once.

    ``runs[i]`` is how often the i-th stands in a row in the word; ``spaced`` are the places in the word without its
    spaces before which it has one.
    """

    runs: tuple[int, ...]
    spaced: frozenset[int] = frozenset()

    @property
    def ordinary(self) -> bool:
        """Whether the word has neither spaces nor repeated characters."""
        return not self.spaced and set(self.runs) == {1}


@cache
def ordinary(length: int) -> Spelling:
    """Return the spelling of a word of so many characters without spaces and repetitions."""
    return Spelling((1,) * length)


def spell(word: str, leniency: Leniency) -> tuple[str, Spelling] | None:
    """Return what a folded word is sought by in relaxed texts; None if it is not, because it has noise itself."""
    plain = word.isalpha() and not leniency.noise & BITS[Noise.LETTERS]
    if plain and not _REPEATED.search(word):
        return word, ordinary(len(word))  # nearly all of them
    parts = word.split(" ")
    if not plain and _holds("".join(parts), leniency.passed_over):
        return None
    spaced = frozenset(accumulate(map(len, parts[:-1])))
    runs = [(letter, sum(1 for _ in run)) for letter, run in groupby("".join(parts))]
    return "".join(letter for letter, _ in runs), Spelling(tuple(length for _, length in runs), spaced)


def _holds(word: str, noise: int) -> bool:
    return bool((noise_table()[encode(word)] & noise).any()) if noise and word else False


@dataclass(frozen=True, slots=True)
class Relaxed:
    """A text without its noise.

    ``kept`` are the places in ``strict.content`` of what is left of it, ``gaps[i]`` the kinds of noise before the i-th
    of them; ``begins[i]`` to ``begins[i + 1]`` in ``kept`` is the run of ``content[i]`` (a wall is a run of none).
    """

    strict: Normalised
    leniency: Leniency
    content: str
    kept: npt.NDArray[np.int64]
    gaps: npt.NDArray[np.uint8]
    begins: npt.NDArray[np.int64]
    image: bool

    @classmethod
    def of(
        cls,
        strict: Normalised,
        original: npt.NDArray[np.uint32],
        soft: Sequence[int],
        leniency: Leniency,
        *,
        image: bool,
    ) -> Relaxed:
        """Return the relaxed reading of a text.

        Args:
            strict: the folded text.
            original: the text's code points.
            soft: offsets in it of line breaks that only the layout put there.
            leniency: what is left out.
            image: whether the text was read in an image.
        """
        codes = encode(strict.content)
        kinds = noise_table()[codes]
        soft_at = _within_words(strict, soft)
        out = (kinds & leniency.passed_over) != 0
        out[soft_at] = True
        kept = np.flatnonzero(~out)
        counted = out.copy()
        counted[soft_at] = False
        breaks = np.isin(original[strict.starts], _BREAK_CODES)
        breaks[soft_at] = False
        fine, gaps = _gaps(kept, kinds, counted, breaks, leniency)
        letters = codes[kept]
        starts = np.ones(len(kept), np.bool_)
        starts[1:] = (letters[1:] != letters[:-1]) | ~fine[1:]
        begins = np.flatnonzero(starts)
        walls = np.flatnonzero(~fine[begins])
        content = np.insert(letters[begins], walls, _WALL)
        begins = np.append(np.insert(begins, walls, begins[walls]), len(kept))
        return cls(strict, leniency, decode(content), kept, gaps, begins, image)

    @property
    def telling(self) -> bool:
        """Whether words may be found that the strict reading does not hold: something was left out, or is stretched."""
        if len(self.kept) < len(self.strict.content):
            return True
        return bool((np.diff(self.begins) >= self.leniency.stretched_from).any())

    def place(self, end: int, spelling: Spelling, *, whole: bool) -> tuple[int, int] | None:
        """Return where in the strict content a word stands that was found up to ``content[end]``; None if it does not.

        Args:
            end: index of the last character found in ``content``.
            spelling: what was found there.
            whole: whether the word must begin and end where words do.
        """
        low = end + 1 - len(spelling.runs)
        chosen = self._chosen(low, end, spelling.runs)
        if chosen is None:
            return None
        first, last = chosen
        begin, stop = int(self.kept[first]), int(self.kept[last]) + 1
        content = self.strict.content
        noisy: list[int] = (np.flatnonzero(self.gaps[first + 1 : last + 1])[:_MOST_JUDGED] + first + 1).tolist()
        spaces = self._places_of_spaces(low, first, spelling)
        if noisy and not self._plausible(chosen, noisy, spaces, sum(spelling.runs)):
            return None
        if spaces and not self.image and not self._spaces_may_be_lost(spaces):
            return None
        if (whole or noisy) and inside_word(content, begin, stop):
            return None
        return begin, stop

    def _chosen(self, low: int, end: int, runs: tuple[int, ...]) -> tuple[int, int] | None:
        """Return the first and last place in ``kept`` that belong to a word whose runs must fit those of the text.

        A run fits if it is as long as the word's, or stretched. At the edges a longer one that is not stretched is cut
        to the word's length: the rest belongs to the neighbours.
        """
        begins = self.begins
        first, last = int(begins[low]), int(begins[end + 1]) - 1
        for at, wanted in enumerate(runs):
            there = int(begins[low + at + 1] - begins[low + at])
            if there == wanted or (there > wanted and self._stretched(low + at, there)):
                continue
            if there < wanted or 0 < at < len(runs) - 1:
                return None
            if at == len(runs) - 1:
                last -= there - wanted
            else:
                first += there - wanted
        return first, last

    def _stretched(self, at: int, length: int) -> bool:
        """Tell whether a character stands so often that it is taken for one; digits count: 1110 is not 110."""
        return length >= self.leniency.stretched_from and not self.content[at].isdecimal()

    def _plausible(self, chosen: tuple[int, int], noisy: Sequence[int], spaces: set[int], letters: int) -> bool:
        """Tell noise that hides a word from marks that part words.

        Suspicious are spaces between letters that make words, anything between digits, and marks that part sentences.
        They are taken for noise where the whole word is spelled out, or where the word itself has a space.
        """
        if all(at in spaces or not self._suspicious(at) for at in noisy):
            return True
        first, last = chosen
        content = self.strict.content
        return letters >= _SPELLED_OUT_FROM and all(
            self.gaps[at] or content[self.kept[at]] == content[self.kept[at - 1]]
            for at in range(first + 1, min(last, first + _MOST_JUDGED) + 1)
        )

    def _suspicious(self, at: int) -> bool:
        gap = int(self.gaps[at])
        if gap & SENTENCE & ~self.leniency.noise:
            return True
        left, right = self.strict.content[self.kept[at - 1]], self.strict.content[self.kept[at]]
        if not one_word(left, right):
            return False
        return bool(gap & SPACE) or left.isdecimal() or right.isdecimal()

    def _spaces_may_be_lost(self, spaces: set[int]) -> bool:
        """Tell whether the spaces of a word may be missing in a text that somebody typed: within Chinese only.

        Who typed ``therapist`` did not mean two words; engines that read images lose spaces.
        """
        content = self.strict.content
        return all(self.gaps[at] or not one_word(content[self.kept[at - 1]], content[self.kept[at]]) for at in spaces)

    def _places_of_spaces(self, low: int, first: int, spelling: Spelling) -> set[int]:
        """Return the places in ``kept`` before which the word has a space; where a run is stretched, its first."""
        places: set[int] = set()
        if spelling.spaced:
            letter = 0
            for at, run in enumerate(spelling.runs):
                begin = max(int(self.begins[low + at]), first)
                places.update(begin + k for k in range(run) if letter + k in spelling.spaced)
                letter += run
        return places


def _within_words(strict: Normalised, soft: Sequence[int]) -> npt.NDArray[np.int64]:
    """Return where in the folded text soft breaks within words are: between scripts that do not separate words.

    Elsewhere a paragraph wraps between words, and the break is their space.
    """
    content = strict.content
    return np.array(
        [
            at
            for at in np.searchsorted(strict.starts, soft).tolist()
            if 0 < at < len(content) - 1
            and kind(content[at - 1]) is Kind.UNSPACED
            and kind(content[at + 1]) is Kind.UNSPACED
        ],
        np.int64,
    )


def _gaps(
    kept: npt.NDArray[np.int64],
    kinds: npt.NDArray[np.uint8],
    counted: npt.NDArray[np.bool_],
    breaks: npt.NDArray[np.bool_],
    leniency: Leniency,
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.uint8]]:
    """Return for each kept character whether a word may go on over the noise before it, and which noise that is."""

    def between(what: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        total: npt.NDArray[np.int64] = np.concatenate(([0], np.cumsum(what)))
        counts: npt.NDArray[np.int64] = total[kept[1:]] - total[kept[:-1] + 1]
        return counts

    fine = np.ones(len(kept), np.bool_)
    gaps = np.zeros(len(kept), np.uint8)
    length = between(counted)
    fine[1:] = length <= leniency.max_gap
    if not leniency.across_lines:
        fine[1:] &= between(breaks) == 0
    found = np.flatnonzero(length)
    if len(found):
        for bit in (1 << place for place in range(8)):
            if leniency.passed_over & bit:
                gaps[1:] |= np.where(between(counted & ((kinds & bit) != 0)) > 0, bit, 0).astype(np.uint8)
    return fine, gaps
