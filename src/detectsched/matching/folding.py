"""What each character is folded to, as one lookup table over all of Unicode.

A text and the words sought in it go through the same table, so that spellings that mean the same meet:

- compatibility forms and width (NFKC): ``ＶＸ`` → ``vx``, ``ｶ`` → ``カ``, ``㎏`` → ``kg``;
- what is enclosed, or numbered by a full stop, is taken out: ``①⑴⒈❶`` → ``1``, ``㈤`` → ``五``, ``Ⓕ🄕🅕🅵`` → ``f``;
- decimal digits of all scripts: ``٣`` → ``3``;
- case: full case folding, ``ß`` → ``ss``;
- traditional Chinese characters become simplified ones, one by one: ``證`` → ``证``;
- what cannot be seen is removed: zero-width characters, joiners, direction marks, the byte order mark, variation
  selectors, soft hyphens (Cf and the rest of Default_Ignorable_Code_Point), control characters;
- marks that can be put on any letter are removed, composed or not: ``é`` and ``e`` + U+0301 → ``e``. Marks that
  belong to one script are part of its spelling and stay: kana voicing (``が`` is not ``か``), vowel signs of India
  and Thailand, Arabic and Hebrew points;
- every kind of space, tabs and line breaks included, becomes U+0020;
- lone surrogates, which cannot be stored or encoded, become U+FFFD.

`Folding` adds what a list may want and another may not: look-alikes, Chinese numerals, what OCR confuses.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from detectsched.matching.variants import confusions, look_alikes, numerals, simplified

CODE_POINTS: Final = 0x110000

# Where there is something to fold beside traditional characters. Elsewhere are Han, unassigned and private code points,
# which are most of Unicode.
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
# Letters in black circles and squares, for which Unicode gives no decomposition.
_BLACK_LETTERS: Final = (0x1F150, 0x1F170)
_INVISIBLE: Final = frozenset(chr(code) for low, high in _GENERIC_MARKS + _IGNORABLE for code in range(low, high))


class Folding(NamedTuple):
    """What is folded beside what always is; see `wordlist.ListOptions`."""

    homoglyphs: bool = False
    numerals: bool = False
    confusions: bool = False

    def steps(self) -> list[Mapping[str, str]]:
        """Return the tables from folded characters to others, in the order in which they apply."""
        wanted = ((self.homoglyphs, look_alikes), (self.numerals, numerals), (self.confusions, confusions))
        return [table() for asked, table in wanted if asked]


PLAIN: Final = Folding()


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


def fold_character(character: str, folding: Folding = PLAIN) -> str:
    """Return what one character is folded to by itself; empty if it is removed.

    What takes more than one character to see (a kana followed by its voicing mark) is left to ``normalise``.
    """
    opened = _opened(unicodedata.normalize("NFKD", character), character)
    folded = _visible(opened).casefold()
    whole = unicodedata.normalize("NFC", _visible(unicodedata.normalize("NFKD", folded)))
    for table in (simplified(), *folding.steps()):
        whole = "".join(table.get(one, one) for one in whole)
    return whole


@cache
def fold_table(folding: Folding = PLAIN) -> FoldTable:
    """Return the table, made at the first call (0.2 s, 6.6 MB; 4.4 MB for each other folding), not when importing."""
    if folding != PLAIN:
        return _stepped(fold_table(), folding.steps())
    length = np.ones(CODE_POINTS, np.uint8)
    code = np.arange(CODE_POINTS, dtype=np.uint32)
    expansions: list[int] = []
    joiners: set[str] = set()
    for point in (point for visited in (*_VISITED, map(ord, simplified())) for point in visited):
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


def _stepped(table: FoldTable, steps: list[Mapping[str, str]]) -> FoldTable:
    """Return a table whose results went through further steps, each from one character to one."""
    further = np.arange(CODE_POINTS, dtype=np.uint32)
    for step in steps:
        one_step = np.arange(CODE_POINTS, dtype=np.uint32)
        one_step[[ord(one) for one in step]] = [ord(other) for other in step.values()]
        further = one_step[further]
    code = np.where(table.length == 1, further[table.code], table.code)
    return FoldTable(table.length, code, further[table.expansions], table.joins)


def _folds_to_itself(character: str) -> bool:
    """Tell the many that need no folding cheaply."""
    return (
        unicodedata.normalize("NFKD", character) == character
        and character.casefold() == character
        and _seen(character) == character
        and character not in simplified()
        and _opened(character, character) == character
    )


def _opened(decomposed: str, character: str) -> str:
    """Return a decomposed character without what encloses it, and digits as those of ASCII."""
    category = unicodedata.category(character)
    if category in ("No", "So") and len(decomposed) > 1:
        # ⑴ decomposes to "(1)", ⒈ to "1.", 🄁 to "0,".
        decomposed = decomposed.removeprefix("(").rstrip(").,")
    code = ord(character)
    if len(decomposed) == 1 and (value := unicodedata.digit(decomposed, None)) is not None:
        return str(value)
    if category == "No" and _is_dingbat(code):
        return f"{unicodedata.numeric(character):.0f}"
    for first in _BLACK_LETTERS:
        if first <= code < first + 26:
            return chr(ord("a") + code - first)
    return decomposed


def _is_dingbat(code: int) -> bool:
    """Tell numbers in circles, which have a value but no decomposition: ⓫, ❿, ➉."""
    return 0x2460 <= code < 0x2500 or 0x2776 <= code < 0x2794


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
