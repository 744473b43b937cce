"""Characters that stand for others, as tables from one folded character to another."""

from __future__ import annotations

import string
from functools import cache
from importlib import resources
from typing import Final

# Pairs that OpenCC leaves apart because which one is right depends on the phrase, or on the region.
_ALSO_SIMPLIFIED: Final = {"著": "着", "祇": "只", "妳": "你", "瞭": "了", "牠": "它"}

# After case folding. The Latin letter is that which the lower-case form resembles; where only the capital resembles
# one (Н, В), that of the capital. Sources: Unicode's confusables (UTS 39), and the alphabets.
_LOOK_ALIKES: Final = (
    ("аеорсухіјѕԁԛԝһӏквмнтѵգ", "aeopcyxijsdqwhlkbmhtvq"),  # Cyrillic, one Armenian
    ("αβεηικμνορτυχωγζ", "abenikmvoptuxwyz"),  # Greek
    ("ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘꞯʀꜱᴛᴜᴠᴡʏᴢ", "abcdefghijklmnopqrstuvwyz"),  # small capitals
    ("ıɑɡøłđħŧƅɩʋ", "iagoldhtbiv"),  # Latin letters that no decomposition leads to plain ones
)
_REGIONAL_A: Final = 0x1F1E6
_NUMERALS: Final = {
    "零": "0", "〇": "0",
    "一": "1", "壹": "1", "弌": "1", "幺": "1",
    "二": "2", "贰": "2", "弍": "2",
    "三": "3", "叁": "3", "弎": "3",
    "四": "4", "肆": "4",
    "五": "5", "伍": "5",
    "六": "6", "陆": "6",
    "七": "7", "柒": "7",
    "八": "8", "捌": "8",
    "九": "9", "玖": "9",
}  # fmt: skip
_CONFUSIONS: Final = {"o": "0", "l": "1", "i": "1", "|": "1"}


@cache
def simplified() -> dict[str, str]:
    """Return traditional characters with their simplified ones (OpenCC's table, see tools/simplified.py)."""
    text = resources.files(__package__).joinpath("data/simplified.txt").read_text("utf-8")
    return {line[0]: line[1] for line in text.splitlines() if not line.startswith("#")} | _ALSO_SIMPLIFIED


@cache
def look_alikes() -> dict[str, str]:
    """Return letters with the Latin letters that they look like; the letters of flags among them."""
    found = {one: other for ones, others in _LOOK_ALIKES for one, other in zip(ones, others, strict=True)}
    flags = {chr(_REGIONAL_A + place): letter for place, letter in enumerate(string.ascii_lowercase)}
    return found | flags


def numerals() -> dict[str, str]:
    """Return Chinese numerals, their forms on cheques included, with their digits."""
    return _NUMERALS


def confusions() -> dict[str, str]:
    """Return characters with the one that stands for all with which OCR confuses them."""
    return _CONFUSIONS
