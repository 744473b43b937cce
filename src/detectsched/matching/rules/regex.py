"""Regular expressions of users, run by RE2: in time linear to the text, whatever the expression."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import re2

from detectsched.errors import InvalidRequest, TaskFailed
from detectsched.wordlist import MOST_PATTERN_CHARACTERS

_MOST_MEMORY: Final = 1 << 20
"""Bytes for the compiled expression and its cache; what does not fit is refused when the list is published."""


class Regex:
    """One expression, matched against the text as it is, not folded; it may say ``(?i)``."""

    __slots__ = ("_compiled",)

    def __init__(self, pattern: str) -> None:
        """Compile an expression.

        Raises:
            InvalidRequest: it is empty, too long, too large, or not of RE2's syntax (no look-around, no references).

        """
        if not 0 < len(pattern) <= MOST_PATTERN_CHARACTERS:
            raise InvalidRequest(
                f"a regular expression needs 1 to {MOST_PATTERN_CHARACTERS} characters", field="pattern"
            )
        options = re2.Options()
        options.max_mem = _MOST_MEMORY
        options.log_errors = False
        try:
            self._compiled: Any = re2.compile(pattern, options)
        except (re2.error, UnicodeEncodeError) as error:
            words = error.args[0] if error.args else ""
            told = words.decode(errors="replace") if isinstance(words, bytes) else str(words)
            raise InvalidRequest(f"RE2 does not take this regular expression: {told}", field="pattern") from error

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield where it matches, from left to right, without overlaps; matches of nothing are none.

        Raises:
            TaskFailed: RE2 gave up; the text must not pass as clean.

        """
        # RE2 counts in bytes of UTF-8; halves of surrogate pairs, which have none, stay one character each.
        data = text.encode("utf-8", "replace")
        begins = np.frombuffer(data, np.uint8) & 0xC0 != 0x80
        place = np.concatenate((np.cumsum(begins) - begins, [len(text)]))
        try:
            for found in self._compiled.finditer(data):
                start, end = found.span()
                if start < end:
                    yield int(place[start]), int(place[end])
        except re2.error as error:
            raise TaskFailed("rule_failed", "a regular expression could not be run over the text") from error
