"""Vehicle plates of the People's Republic (GA 36-2018) in folded text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from detectsched.matching.scripts import inside_word

_PROVINCES: Final = "京津沪渝冀豫云辽黑湘皖鲁新苏浙赣鄂桂甘晋蒙陕吉闽贵粤青藏川宁琼"
_LETTER: Final = "[a-hj-np-z]"
_PLATE: Final = re.compile(
    rf"[{_PROVINCES}]{_LETTER}[ .·•・-]?"
    rf"(?:([df](?:[a-hj-np-z0-9])[0-9]{{4}}|[0-9]{{5}}[df])|([a-hj-np-z0-9]{{4}}(?:[a-hj-np-z0-9]|[挂学警港澳使领])))"
)
_MOST_LETTERS: Final = 2
"""Of the five places after the dot; ``新server`` is no plate."""


def plates(content: str) -> Iterator[tuple[int, int]]:
    """Yield plates of vehicles with engines, and of electric ones, whose numbers have six places."""
    for found in _PLATE.finditer(content):
        ordinary = found.group(2)
        if ordinary and sum(map(str.isascii, ordinary)) - sum(map(str.isdecimal, ordinary)) > _MOST_LETTERS:
            continue
        if not inside_word(content, *found.span()):
            yield found.span()
