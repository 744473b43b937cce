"""The slowest matcher that can be written down: it tries every word at every place, straight from the definitions.

No automaton, no arrays, no table of its own: ``fold_character`` says what one character becomes, the rest is loops.
"""

from __future__ import annotations

import unicodedata
from itertools import groupby, pairwise
from typing import Final, NamedTuple

from detectsched.matching.folding import Folding, fold_character
from detectsched.wordlist import AllowRule, ListOptions, Mode, Noise, Repeats, Word

Place = tuple[int, int]
_STRETCHED: Final = {Repeats.OFF: 10**9, Repeats.STRETCHED: 3, Repeats.ANY: 2}


class Letter(NamedTuple):
    """One folded character, the place of the original one, and whether that ends a line."""

    is_: str
    at: int
    breaks: bool


class Brute:
    """One text under the options of one list; the text holds nothing that composes."""

    def __init__(self, text: str, options: ListOptions) -> None:
        self.options = options
        self.folding = Folding(options.homoglyphs, options.numerals, options.confusions)
        self.letters = [
            Letter(folded, at, character in "\n\r")
            for at, character in enumerate(text)
            for folded in self.fold(character)
        ]

    def fold(self, text: str) -> str:
        """Fold character by character."""
        return "".join(fold_character(character, self.folding) for character in text)

    def found(self, words: list[Word]) -> list[tuple[int, int, str]]:
        """Return (start, end, word) of every hit, in order; ``words`` are distinct."""
        hits: list[tuple[int, int, str]] = []
        allowed: list[Place] = []
        for word in words:
            for first, last in self.places(word):
                start, end = self.letters[first].at, self.letters[last].at + 1
                if word.allow:
                    allowed.append((start, end))
                else:
                    hits.append((start, end, word.text))
        return sorted({hit for hit in hits if not any(self.takes(one, hit) for one in allowed)})

    def takes(self, allowed: Place, hit: tuple[int, int, str]) -> bool:
        """Whether an allowed word takes a hit away."""
        if self.options.allow is AllowRule.INSIDE:
            return allowed[0] <= hit[0] and hit[1] <= allowed[1]
        return allowed[0] < hit[1] and hit[0] < allowed[1]

    def places(self, word: Word) -> list[Place]:
        """Return the first and last letter of every place of a word: strict ones, and others that touch none."""
        sought = self.fold(word.text).strip()
        whole = (word.mode or self.options.mode) is Mode.WORD
        strict = [
            (first, first + len(sought) - 1)
            for first in range(len(self.letters) - len(sought) + 1)
            if all(self.letters[first + k].is_ == sought[k] for k in range(len(sought)))
            and not (whole and self.inside_word(first, first + len(sought) - 1))
        ]
        relaxed = [
            place
            for place in self.relaxed(sought, whole=whole)
            if not any(place[0] <= last and first <= place[1] for first, last in strict)
        ]
        return strict + relaxed

    def relaxed(self, sought: str, *, whole: bool) -> list[Place]:
        """Return where a word stands past noise and repetitions."""
        bare = sought.replace(" ", "")
        if any(self.is_noise(letter) for letter in bare):
            return []
        kept = [at for at, letter in enumerate(self.letters) if not self.is_noise(letter.is_)]
        return [
            (kept[first], kept[last])
            for first in range(len(kept))
            for last in range(first, len(kept))
            if self.fits(kept, first, last, bare)
            and self.plausible(kept[first : last + 1], sought)
            and not ((whole or kept[last] - kept[first] > last - first) and self.inside_word(kept[first], kept[last]))
        ]

    def fits(self, kept: list[int], first: int, last: int, bare: str) -> bool:
        """Whether kept letters first to last are the word, up to how often each stands."""
        if not all(self.goes_on(kept, at) for at in range(first, last)):
            return False
        there = self.runs("".join(self.letters[at].is_ for at in kept[first : last + 1]))
        wanted = self.runs(bare)
        if [letter for letter, _ in there] != [letter for letter, _ in wanted]:
            return False
        before = self.more(kept, first, -1)
        after = self.more(kept, last, 1)
        for at, ((letter, chosen), (_, count)) in enumerate(zip(there, wanted, strict=True)):
            is_first, is_last = at == 0, at == len(wanted) - 1
            full = chosen + before * is_first + after * is_last
            if full == count or (full > count and full >= _STRETCHED[self.options.repeats] and not letter.isdecimal()):
                right = chosen == full
            elif is_last and full > count:
                # The beginning of the run; what follows belongs to the neighbour.
                right = chosen == count and (not is_first or before == 0)
            elif is_first and full > count:
                right = chosen == count
            else:
                right = False
            if not right:
                return False
        return True

    def runs(self, letters: str) -> list[tuple[str, int]]:
        """Return each letter with how often it stands in a row."""
        return [(letter, len(list(run))) for letter, run in groupby(letters)]

    def more(self, kept: list[int], at: int, step: int) -> int:
        """Return how far the run of a letter goes on beyond it."""
        count = 0
        while 0 <= at + step < len(kept):
            joined = self.goes_on(kept, at if step > 0 else at - 1)
            if not joined or self.letters[kept[at]].is_ != self.letters[kept[at + step]].is_:
                break
            count += 1
            at += step
        return count

    def goes_on(self, kept: list[int], at: int) -> bool:
        """Whether a word may go on over the gap behind a kept letter."""
        gap = self.letters[kept[at] + 1 : kept[at + 1]]
        return len(gap) <= self.options.max_gap and (
            self.options.across_lines or not any(letter.breaks for letter in gap)
        )

    def plausible(self, places: list[int], sought: str) -> bool:
        """Whether what stands between the letters hides a word, rather than parting words."""
        spaced = self.spaces(places, sought)
        gaps = ["".join(self.letters[at].is_ for at in range(one + 1, other)) for one, other in pairwise(places)]
        pairs = [(self.letters[one].is_, self.letters[other].is_) for one, other in pairwise(places)]
        for at, (gap, (left, right)) in enumerate(zip(gaps, pairs, strict=True)):
            if not gap and at in spaced and self.joined(left, right):
                return False  # a lost space, in a text that somebody typed
        if not any(
            gap and at not in spaced and self.suspicious(gap, *pair)
            for at, (gap, pair) in enumerate(zip(gaps, pairs, strict=True))
        ):
            return True
        apart = all(gap or left == right for gap, (left, right) in zip(gaps, pairs, strict=True))
        return apart and len(sought.replace(" ", "")) >= 3

    def spaces(self, places: list[int], sought: str) -> set[int]:
        """Return the gaps at which the word itself has a space."""
        parts = sought.split(" ")
        before = {sum(map(len, parts[:many])) for many in range(1, len(parts))}
        spaced: set[int] = set()
        in_text = in_word = 0
        for letter, length in self.runs("".join(parts)):
            spaced |= {in_text + k - 1 for k in range(length) if in_word + k in before}
            in_word += length
            while in_text < len(places) and self.letters[places[in_text]].is_ == letter:
                in_text += 1
        return spaced

    def suspicious(self, gap: str, left: str, right: str) -> bool:
        """Whether a gap between two letters is more likely one between words."""
        if any(mark in ",;:!?、。" for mark in gap) and Noise.SENTENCE not in self.options.noise:
            return True
        return self.joined(left, right) and (" " in gap or left.isdecimal() or right.isdecimal())

    def is_noise(self, letter: str) -> bool:
        """Whether a letter is passed over."""
        if not self.options.max_gap or not self.options.noise:
            return False
        if letter == " ":
            return Noise.SPACES in self.options.noise
        if letter in ",;:!?、。":
            return True
        category = unicodedata.category(letter)
        if category[0] in "PS":
            return Noise.SYMBOLS in self.options.noise
        if category == "Nd":
            return Noise.DIGITS in self.options.noise
        return letter.isascii() and letter.isalpha() and Noise.LETTERS in self.options.noise

    def inside_word(self, first: int, last: int) -> bool:
        """Whether a place begins or ends within a word."""
        letters = self.letters
        return (first > 0 and self.joined(letters[first - 1].is_, letters[first].is_)) or (
            last + 1 < len(letters) and self.joined(letters[last].is_, letters[last + 1].is_)
        )

    def joined(self, left: str, right: str) -> bool:
        """Whether two letters belong to one word; the alphabet of the tests has Latin, Cyrillic, digits and Han."""
        return all(letter.isdecimal() or (letter.isalpha() and letter < "\u3000") for letter in (left, right))
