"""Telephone numbers: candidates by shape, judged by Google's libphonenumber."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import phonenumbers
from phonenumbers import NumberParseException, PhoneNumberType

_REGION: Final = "CN"
"""Whose numbers need no country code."""
_MOBILE_TYPES: Final = frozenset({PhoneNumberType.MOBILE, PhoneNumberType.FIXED_LINE_OR_MOBILE})
_COUNTRY: Final = r"(?:(?:\+|00)86[ -]?|86[ -]?)?"
_CHINESE_MOBILE: Final = re.compile(rf"(?<![0-9+]){_COUNTRY}1[ -]?[3-9](?:[ -]?[0-9]){{9}}(?![0-9])")
_CHINESE_LANDLINE: Final = re.compile(
    r"(?<![0-9+])(?:"
    r"\(?0[1-9][0-9]{1,2}\)?[ -]?[1-9][0-9]{2,3}[ -]?[0-9]{4}(?:(?:-|转|ext\.? ?)[0-9]{1,6})?"
    r"|(?:\+|00)86[ -]?\(?0?[1-9][0-9]{1,2}\)?[ -]?[1-9][0-9]{2,3}[ -]?[0-9]{4}"
    r"|[48]00(?:[ -]?[0-9]){7}"
    r")(?![0-9])"
)
_INTERNATIONAL: Final = re.compile(r"(?<![0-9+])\+[1-9][0-9]{0,3}(?:[ -]?\(?[0-9]{1,10}\)?){1,6}(?![0-9])")
_EXTENSION: Final = re.compile(r"(?<=[0-9]{4})(?:转|ext\.? ?|-(?=[0-9]{1,6}$))")
_MOST_SEPARATORS: Final = 3
_SEPARATORS: Final = re.compile("[ -]")


def mobiles(content: str) -> Iterator[tuple[int, int]]:
    """Yield mobile numbers; one written with a separator between all of its digits is one as well."""
    for found in _CHINESE_MOBILE.finditer(content):
        digits = sum(map(str.isdecimal, found.group()))
        separators = len(_SEPARATORS.findall(found.group()))
        if (separators <= _MOST_SEPARATORS or separators >= digits - 3) and _type(found.group()) in _MOBILE_TYPES:
            yield found.span()
    yield from _international(content, mobile=True)


def landlines(content: str) -> Iterator[tuple[int, int]]:
    """Yield numbers of landlines and services, with their extension."""
    for found in _CHINESE_LANDLINE.finditer(content):
        number = _EXTENSION.split(found.group())[0]
        kinds = _type(found.group()), _type(number)
        if any(kind is not None and kind not in _MOBILE_TYPES for kind in kinds):
            yield found.span()
    yield from _international(content, mobile=False)


def _international(content: str, *, mobile: bool) -> Iterator[tuple[int, int]]:
    for found in _INTERNATIONAL.finditer(content):
        number = found.group()
        if number.startswith("+86"):
            continue  # found as Chinese
        # What follows after a space may be another number.
        while number and (kind := _type(number)) is None:
            number = number[: max(number.rfind(" "), number.rfind("-"), 0)]
        if number and (kind in _MOBILE_TYPES) is mobile:
            yield found.start(), found.start() + len(number)


def _type(number: str) -> int | None:
    """Return the type of a valid number; None for any other."""
    # (The library takes its time; lengths as of ITU-T E.164, with prefixes.)
    if not 7 <= sum(map(str.isdecimal, number)) <= 19:
        return None
    if number.startswith("00"):
        number = "+" + number[2:]
    try:
        parsed = phonenumbers.parse(number, _REGION)
    except NumberParseException:
        return None
    return phonenumbers.number_type(parsed) if phonenumbers.is_valid_number(parsed) else None
