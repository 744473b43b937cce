"""Characters that may stand between the characters of a word without parting them, as one table over all of Unicode."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterable
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from detectsched.wordlist import Noise

BITS: Final = {noise: 1 << place for place, noise in enumerate(Noise)}
SPACE: Final = BITS[Noise.SPACES]
SENTENCE: Final = BITS[Noise.SENTENCE]
# As they are folded: a full-width comma is a comma. The full stop of ASCII is none of them: it ends sentences of
# languages that put a space behind it, and is what words are most often broken with (身.份.证).
_SENTENCE_MARKS: Final = frozenset(",;:!?、。؟،؛")
LINE_BREAKS: Final = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
"""What ends a line, before folding makes a space of it."""


@cache
def noise_table() -> npt.NDArray[np.uint8]:
    """Return for each (folded) code point the bit of its kind of noise; 0 for a letter that is never noise."""
    table = np.zeros(sys.maxunicode + 1, np.uint8)
    for point in (*range(0x3400), *range(0xA000, 0xAC00), *range(0xF900, 0x20000)):
        table[point] = _bit(chr(point))
    return table


def mask_of(noises: Iterable[Noise]) -> int:
    """Return the bits of some kinds together."""
    return sum(BITS[noise] for noise in set(noises))


def _bit(character: str) -> int:
    category = unicodedata.category(character)
    if character == " ":
        return SPACE
    if character in _SENTENCE_MARKS:
        return SENTENCE
    if category[0] in "PS":
        return BITS[Noise.SYMBOLS]
    if category == "Nd":
        return BITS[Noise.DIGITS]
    if character.isascii() and character.isalpha():
        return BITS[Noise.LETTERS]
    return 0
