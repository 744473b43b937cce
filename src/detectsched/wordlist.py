"""The vocabulary of word lists: what is sought, and how it is sought.

Everything here is part of a published version: a version never changes, so a result that names it can be explained.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

MOST_RULES: Final = 50
"""Rules of one list."""
MOST_PATTERN_CHARACTERS: Final = 500
"""Longest regular expression."""
MOST_GAP: Final = 16
"""Largest `ListOptions.max_gap`."""


class SearchLibrary(StrEnum):
    """What finds words in texts; no part of a version, since both find the same."""

    PYAHOCORASICK = "pyahocorasick"
    AHOCORASICK_RS = "ahocorasick_rs"
    """Three times as fast with long texts; it comes with the extra `bulk`."""


class Mode(StrEnum):
    """Where a word is found."""

    WORD = "word"
    """Only as a whole word where it begins or ends with a letter or digit of a script that separates words."""
    SUBSTRING = "substring"
    """Anywhere, inside other words too."""


class Repeats(StrEnum):
    """Which repetitions of a word's characters are passed over."""

    OFF = "off"
    """None: every character counts."""
    STRETCHED = "stretched"
    """Characters that stand three or more times in a row (``fuuuck``), which no ordinary spelling does."""
    ANY = "any"
    """Two in a row as well: ``傻傻逼逼``, and ``good`` for ``god``."""


class Noise(StrEnum):
    """A kind of character that may stand between the characters of a word."""

    SPACES = "spaces"
    SYMBOLS = "symbols"
    """Symbols, emoji and all punctuation but that of `SENTENCE`."""
    SENTENCE = "sentence"
    """Marks that part sentences: ``,;:!?`` and their Chinese forms ``、。``."""
    DIGITS = "digits"
    LETTERS = "letters"
    """Latin letters; useful in lists of Chinese words."""


class AllowRule(StrEnum):
    """Which hits an allowed word takes away."""

    INSIDE = "inside"
    """Those that lie inside it: allowing 三黄片 takes 黄片 out of it, and out of nothing else."""
    OVERLAP = "overlap"
    """Those that it touches."""


class Word(msgspec.Struct, frozen=True, gc=False):
    """One entry of a word list.

    ``mode`` None is the list's. An entry with ``allow`` is not reported, but takes hits of its list away.
    ``replacement`` is what a masked text shows in its place; None: asterisks.
    """

    text: str
    category: str = "default"
    level: int = 1
    mode: Mode | None = None
    allow: bool = False
    tags: tuple[str, ...] = ()
    replacement: str | None = None


class RuleKind(StrEnum):
    """What a rule finds."""

    ID_CARD = "id_card"
    """Identity card numbers of the People's Republic: 18 places, region, date and check digit."""
    BANK_CARD = "bank_card"
    """Payment card numbers: issuer, length and check digit."""
    MOBILE = "mobile"
    """Mobile numbers: Chinese ones, and any with a country code."""
    LANDLINE = "landline"
    """Landline and service numbers, likewise; Chinese ones with their area code."""
    EMAIL = "email"
    URL = "url"
    """Addresses with a scheme or ``www.``, and bare names under a well-known top-level domain."""
    IP = "ip"
    """IPv4 and IPv6 addresses."""
    PLATE = "plate"
    """Chinese vehicle plates."""
    DIGITS = "digits"
    """At least ``min_digits`` digits in a row, in whatever style, Chinese numerals included."""
    REGEX = "regex"
    """A regular expression in RE2's syntax."""


class Rule(msgspec.Struct, frozen=True):
    """Something other than a word that a list seeks.

    ``name`` is what hits show; '' is the kind's own. ``pattern`` belongs to REGEX, ``min_digits`` and ``skip_dates``
    (dates written as eight digits are no hits) to DIGITS.
    """

    kind: RuleKind
    name: str = ""
    category: str = "default"
    level: int = 1
    tags: tuple[str, ...] = ()
    pattern: str = ""
    min_digits: int = 8
    skip_dates: bool = False

    @property
    def title(self) -> str:
        """What hits show as the word."""
        return self.name or self.kind.value


class ListOptions(msgspec.Struct, frozen=True):
    """How a list is matched.

    Width, case, accents, traditional script, enclosed characters, digits of all scripts and invisible characters make
    no difference in any list (``matching.folding``). Beside that:

    ``noise`` may stand between the characters of a word, at most ``max_gap`` of it in one place (0: none), and across
    a line break that somebody typed only with ``across_lines``. ``homoglyphs`` takes Cyrillic, Greek and other letters
    for the Latin ones that they look like; ``numerals`` Chinese numerals for digits (``六九`` is ``69``);
    ``confusions`` what OCR confuses, 0 and O, 1, l and I. ``pinyin`` and ``split`` find words also in pinyin and with
    their characters split in parts (``木仓`` for ``枪``). With ``shadow`` the list is on trial: it is matched, and its
    hits are kept, apart from all others, but nothing follows from them.
    """

    mode: Mode = Mode.WORD
    repeats: Repeats = Repeats.STRETCHED
    noise: tuple[Noise, ...] = (Noise.SPACES, Noise.SYMBOLS)
    max_gap: int = 4
    across_lines: bool = False
    homoglyphs: bool = True
    numerals: bool = False
    confusions: bool = False
    pinyin: bool = False
    split: bool = False
    allow: AllowRule = AllowRule.INSIDE
    rules: tuple[Rule, ...] = ()
    shadow: bool = False


class ListContent(msgspec.Struct, frozen=True):
    """One version of a list, whole."""

    words: tuple[Word, ...] = ()
    options: ListOptions = ListOptions()
