"""What each character is folded to, as one lookup table over all of Unicode.

A text and the words sought in it go through the same table, so that spellings that mean the same meet:

- compatibility forms and width (NFKC): ``ＶＸ`` → ``vx``, ``ｶ`` → ``カ``, ``①`` → ``1``, ``㎏`` → ``kg``;
- case: full case folding, ``ß`` → ``ss``;
- what cannot be seen is removed: zero-width characters, joiners, direction marks, the byte order mark, variation
  selectors, soft hyphens (Cf and the rest of Default_Ignorable_Code_Point), control characters;
- marks that can be put on any letter are removed, composed or not: ``é`` and ``e`` + U+0301 → ``e``. Marks that
  belong to one script are part of its spelling and stay: kana voicing (``が`` is not ``か``), vowel signs of India
  and Thailand, Arabic and Hebrew points;
- every kind of space, tabs and line breaks included, becomes U+0020;
- lone surrogates, which cannot be stored or encoded, become U+FFFD.

More foldings of single characters (traditional → simplified script, digit styles, homoglyphs) belong in
``fold_character``: nothing else changes with them.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

CODE_POINTS: Final = 0x110000

# Where there is something to fold. Elsewhere are Han, unassigned and private code points, which are most of Unicode.
# (A test visits every code point to see that this is so in the running Unicode version.)
_VISITED: Final = (
    range(0x3400),
    range(0xA000, 0x20000),
    range(0x2F800, 0x2FA20),  # Han compatibility supplement
    range(0xE0000, 0xE1000),
)
# Blocks "Combining Diacritical Marks", "... Extended", "... Supplement", "... for Symbols" and "Combining Half Marks".
_GENERIC_MARKS: Final = ((0x0300, 0x0370), (0x1AB0, 0x1B00), (0x1DC0, 0x1E00), (0x20D0, 0x2100), (0xFE20, 0xFE30))
# Default_Ignorable_Code_Point (Unicode, DerivedCoreProperties) as far as it is not of category Cf.
_IGNORABLE: Final = (
    (0x115F, 0x1161),  # Hangul fillers
    (0x17B4, 0x17B6),  # Khmer inherent vowels
    (0x180B, 0x1810),  # Mongolian variation selectors
    (0x2065, 0x2066),  # reserved
    (0x3164, 0x3165),  # Hangul filler
    (0xFE00, 0xFE10),  # variation selectors
    (0xFFA0, 0xFFA1),  # half-width Hangul filler
    (0xFFF0, 0xFFF9),  # reserved
    (0xE0000, 0xE1000),  # tags, variation selectors supplement
)
_INVISIBLE: Final = frozenset(chr(code) for low, high in _GENERIC_MARKS + _IGNORABLE for code in range(low, high))


@dataclass(frozen=True, slots=True)
class FoldTable:
    """The folding of every code point, as arrays indexed by it.

    ``length[c]`` is how many characters ``c`` becomes. Where that is 1, ``code[c]`` is the character; where it is
    more, ``code[c]`` is the place in ``expansions`` at which they stand. ``joins[c]`` says that the folded character
    ``c`` may compose with the one before it.
    """

    length: npt.NDArray[np.uint8]
    code: npt.NDArray[np.uint32]
    expansions: npt.NDArray[np.uint32]
    joins: npt.NDArray[np.bool_]


def fold_character(character: str) -> str:
    """Return what one character is folded to by itself; empty if it is removed.

    What takes more than one character to see (a kana followed by its voicing mark) is left to ``normalise``.
    """
    folded = _visible(unicodedata.normalize("NFKD", character)).casefold()
    return unicodedata.normalize("NFC", _visible(unicodedata.normalize("NFKD", folded)))


@cache
def fold_table() -> FoldTable:
    """Return the table, built at the first call (about 0.1 s; 6.6 MB) so that importing costs nothing."""
    length = np.ones(CODE_POINTS, np.uint8)
    code = np.arange(CODE_POINTS, dtype=np.uint32)
    expansions: list[int] = []
    joiners: set[str] = set()
    for point in (point for visited in _VISITED for point in visited):
        character = chr(point)
        if _folds_to_itself(character):
            continue
        folded = fold_character(character)
        length[point] = len(folded)
        if len(folded) == 1:
            code[point] = ord(folded)
            joiners.update(unicodedata.normalize("NFD", folded)[1:])
        elif folded:
            code[point] = len(expansions)
            expansions.extend(map(ord, folded))
    joins = np.zeros(CODE_POINTS, np.bool_)
    joins[[ord(joiner) for joiner in joiners]] = True
    return FoldTable(length, code, np.array(expansions, np.uint32), joins)


def _folds_to_itself(character: str) -> bool:
    """Tell the many that need no folding cheaply."""
    return (
        unicodedata.normalize("NFKD", character) == character
        and character.casefold() == character
        and _seen(character) == character
    )


def _visible(text: str) -> str:
    return "".join(map(_seen, text))


def _seen(character: str) -> str:
    """Return what is seen of one decomposed character."""
    category = unicodedata.category(character)
    if category[0] == "Z" or (category == "Cc" and character.isspace()):
        return " "
    if category == "Cs":
        return "\ufffd"
    if category in ("Cf", "Cc") or character in _INVISIBLE:
        return ""
    return character
