"""Where words begin and end: scripts written with spaces between words, and those written without."""

from __future__ import annotations

import unicodedata
from enum import Enum
from functools import lru_cache
from typing import Final

# Blocks of the scripts that put no space between words (or, as Korean, glue particles to them). A word of such a
# script is found anywhere.
_UNSPACED: Final = (
    (0x0E00, 0x10A0),  # Thai, Lao, Tibetan, Myanmar
    (0x1100, 0x1200),  # Hangul Jamo
    (0x1780, 0x1800),  # Khmer
    (0x2E80, 0xA4D0),  # radicals, kana, Bopomofo, Han, Yi
    (0xA960, 0xA980),  # Hangul Jamo Extended-A
    (0xAC00, 0xD800),  # Hangul
    (0xF900, 0xFB00),  # Han compatibility
    (0x1AFF0, 0x1B170),  # kana supplements
    (0x20000, 0x40000),  # Han extensions
)


class Kind(Enum):
    """What a character is to its neighbour."""

    SPACED = "letter, mark or digit of a script that separates words: joins its like, whatever the script"
    UNSPACED = "letter of a script that does not separate words: never part of another's word"
    OTHER = "space, punctuation, symbol, emoji"


@lru_cache(maxsize=32768)
def kind(character: str) -> Kind:
    """Return the kind of one (folded) character.

    Digits join letters: ``test`` is not found in ``test123``, nor ``69`` in ``a69``. An underscore joins nothing.
    """
    category = unicodedata.category(character)
    if category[0] not in "LM" and category not in ("Nd", "Nl"):
        return Kind.OTHER
    code = ord(character)
    if any(low <= code < high for low, high in _UNSPACED):
        return Kind.UNSPACED
    return Kind.SPACED


def one_word(left: str, right: str) -> bool:
    """Tell whether two neighbouring characters belong to one word, so that no word can end between them."""
    return kind(left) is Kind.SPACED and kind(right) is Kind.SPACED


def inside_word(content: str, start: int, end: int) -> bool:
    """Tell whether ``content[start:end]`` begins or ends within a word."""
    return (start > 0 and one_word(content[start - 1], content[start])) or (
        end < len(content) and one_word(content[end - 1], content[end])
    )
