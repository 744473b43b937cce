"""Numbers of identity cards and payment cards, which prove themselves by check digits; and long numbers of any kind."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from typing import Final

from detectsched.clock import utc_now
from detectsched.matching.scripts import inside_word

# GB 11643-1999: region, date of birth, serial number, check character; often written in these groups.
_ID_CARD: Final = re.compile(r"(?<![0-9])([1-9][0-9]{5})[ -]?([0-9]{8})[ -]?([0-9]{3}[0-9x])(?![0-9])")
# First two digits of GB/T 2260: provinces, Taiwan (71, 83), Hong Kong (81), Macao (82), foreigners (91).
_REGIONS: Final = frozenset(
    f"{first}{second}"
    for first, seconds in (("1", "12345"), ("2", "123"), ("3", "1234567"), ("4", "123456"), ("5", "01234"),
                           ("6", "12345"), ("7", "1"), ("8", "123"), ("9", "1"))
    for second in seconds
)  # fmt: skip
# ISO 7064, MOD 11-2.
_ID_WEIGHTS: Final = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
_ID_CHECK: Final = "10x98765432"

_GROUPS: Final = re.compile(r"[0-9]+(?:[ -][0-9]+)*")
_MOST_GROUPS: Final = 5
_GROUPINGS: Final = ((4, 6, 5), (4, 6, 4), (6, 13), (6, 10), (8, 8), (6, 12))
"""Beside a single group and groups of four."""

# Issuer identification numbers (ISO/IEC 7812): prefixes from, to, and the lengths that are issued.
_ISSUERS: Final = (
    ("4", "4", frozenset({13, 16, 19})),  # Visa
    ("51", "55", frozenset({16})),  # Mastercard
    ("2221", "2720", frozenset({16})),  # Mastercard, second series
    ("34", "34", frozenset({15})),  # American Express
    ("37", "37", frozenset({15})),
    ("62", "62", frozenset(range(16, 20))),  # UnionPay
    ("8100", "8171", frozenset(range(16, 20))),  # UnionPay
    ("9558", "9559", frozenset({16, 19})),  # Chinese banks before UnionPay
    ("6011", "6011", frozenset(range(16, 20))),  # Discover
    ("6013", "6014", frozenset({16, 17, 18, 19})),  # Chinese banks before UnionPay
    ("644", "659", frozenset(range(16, 20))),  # Discover, RuPay
    ("60", "60", frozenset({16})),  # RuPay
    ("3528", "3589", frozenset(range(16, 20))),  # JCB
    ("300", "305", frozenset(range(14, 20))),  # Diners Club
    ("3095", "3095", frozenset(range(14, 20))),
    ("36", "36", frozenset(range(14, 20))),
    ("38", "39", frozenset(range(14, 20))),
    ("2200", "2204", frozenset(range(16, 20))),  # Mir
    ("5018", "5038", frozenset(range(12, 20))),  # Maestro
    ("5893", "5893", frozenset(range(12, 20))),
    ("6304", "6304", frozenset(range(12, 20))),
    ("6759", "6763", frozenset(range(12, 20))),
)


def id_cards(content: str) -> Iterator[tuple[int, int]]:
    """Yield identity card numbers whose region, date and check character are right."""
    for found in _ID_CARD.finditer(content):
        if is_id_card("".join(found.groups())) and not inside_word(content, *found.span()):
            yield found.span()


def is_id_card(number: str) -> bool:
    """Tell whether 18 places, the last perhaps ``x``, are an identity card number."""
    if len(number) != 18 or number[:2] not in _REGIONS or not _is_birthday(number[6:14]):
        return False
    total = sum(weight * int(digit) for weight, digit in zip(_ID_WEIGHTS, number, strict=False))
    return _ID_CHECK[total % 11] == number[17]


def bank_cards(content: str) -> Iterator[tuple[int, int]]:
    """Yield card numbers: of an issuer, of a length that it issues, and passing Luhn's check (ISO/IEC 7812-1)."""
    for run in _GROUPS.finditer(content):
        groups = [
            (run.start() + group.start(), run.start() + group.end()) for group in re.finditer("[0-9]+", run.group())
        ]
        at = 0
        while at < len(groups):
            taken = next(
                (
                    many
                    for many in range(min(_MOST_GROUPS, len(groups) - at), 0, -1)
                    if _is_card(content, groups[at : at + many])
                ),
                0,
            )
            if taken and not inside_word(content, groups[at][0], groups[at + taken - 1][1]):
                yield groups[at][0], groups[at + taken - 1][1]
            at += taken or 1


def digits(content: str, *, at_least: int, skip_dates: bool) -> Iterator[tuple[int, int]]:
    """Yield runs of so many digits; not those that are a date like 20100506, if these are to be skipped."""
    for found in re.finditer(f"[0-9]{{{at_least},}}", content):
        if not (skip_dates and _date(found.group()) is not None):
            yield found.span()


def _is_card(content: str, groups: list[tuple[int, int]]) -> bool:
    sizes = tuple(end - start for start, end in groups)
    if not 12 <= sum(sizes) <= 19:
        return False
    by_fours = all(size == 4 for size in sizes[:-1]) and sizes[-1] <= 4
    if len(sizes) > 1 and not by_fours and sizes not in _GROUPINGS:
        return False
    number = "".join(content[start:end] for start, end in groups)
    # Identity cards of Gansu begin like cards of UnionPay.
    return _is_issued(number) and _passes_luhn(number) and not is_id_card(number)


def _is_issued(number: str) -> bool:
    return any(low <= number[: len(low)] <= high and len(number) in lengths for low, high, lengths in _ISSUERS)


def _passes_luhn(number: str) -> bool:
    total = 0
    for place, digit in enumerate(reversed(number)):
        value = int(digit) * (1 + place % 2)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def _is_birthday(digits: str) -> bool:
    day = _date(digits)
    return day is not None and day <= utc_now().date()


def _date(digits: str) -> date | None:
    """Return the date that YYYYMMDD says, from 1900 to 2099; None if it says none."""
    if len(digits) != 8 or not "1900" <= digits[:4] <= "2099":
        return None
    try:
        return date(int(digits[:4]), int(digits[4:6]), int(digits[6:]))
    except ValueError:
        return None
