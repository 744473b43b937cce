"""Tables for spreadsheets: CSV and XLSX in which no cell is taken for a formula.

Excel and its like run what begins with ``=``, ``+``, ``-`` or ``@``, also after blanks, after a tab or a line break,
and in full width; and a word list, a device's name or a text may hold any of them. A cell that would begin so gets an
apostrophe before it, which means "text" to them (OWASP: CSV Injection). So does what comes behind a comma, a semicolon,
a tab or a line break within a cell: opened with another separator, a cell begins there. Numbers stay numbers, and JSON
has all words as they are.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Final, TypeAlias

import xlsxwriter

Cell: TypeAlias = Any
"""str, int, float, bool, a date, a time, JSON, or None."""

TRIGGERS: Final = (
    "=+-@\u207a\u207b\u207c\u208a\u208b\u208c\u2212\u2a75\u2a76\ufb29\ufe62\ufe63\ufe66\ufe6b\uff0b\uff0d\uff1d\uff20"
)
"""What begins a formula, and what compatibility folding makes such a sign of; the minus sign looks like one."""

_BLANK: Final = r"[\s\x00-\x20\x7f-\xa0\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff\"']*"
_AT_START: Final = re.compile(rf"[\t\r\n]|{_BLANK}[{re.escape(TRIGGERS)}]")
_WITHIN: Final = re.compile(rf"([,;\t\r\n]{_BLANK})(?=[{re.escape(TRIGGERS)}])")
_QUOTED_WITHIN: Final = re.compile(rf"([,;\t\r\n]{_BLANK})'(?=[{re.escape(TRIGGERS)}])")
_LONGEST: Final = 32_767
"""Characters of a cell, to Excel."""
_MOST_ROWS: Final = 1_000_000
"""Of a sheet; Excel takes 1,048,576."""


def neutral(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula."""
    quoted = _WITHIN.sub(r"\1'", text)
    return f"'{quoted}" if _AT_START.match(text) else quoted


def said(cell: str) -> str:
    """Return the text of which `neutral` has made a cell; one of which it has not stays as it is."""
    if "'" not in cell:
        return cell
    for text in (cell.removeprefix("'"), cell):
        unquoted = _QUOTED_WITHIN.sub(r"\1", text)
        if neutral(unquoted) == cell:
            return unquoted
    return cell


def plain(value: Cell) -> str | int | float:
    """Return a value as a cell holds it."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case int() | float():
            return value
        case date():
            # A datetime is one as well.
            return value.isoformat().replace("+00:00", "Z")
        case dict() | list():
            return neutral(json.dumps(value, ensure_ascii=False))
        case _:
            return neutral(str(value))


def csv_of(rows: Iterable[Sequence[Cell]]) -> bytes:
    """Return rows as CSV in UTF-8 (RFC 4180)."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows([plain(value) for value in row] for row in rows)
    return text.getvalue().encode()


class Workbook:
    """An XLSX file that is written row by row: a row is on the disk when the next one begins."""

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        options = {"constant_memory": True, "tmpdir": str(path.parent)}
        self._book = xlsxwriter.Workbook(str(path), options)
        self._columns = columns
        self._sheet: Any = None
        self._row = 0

    def write(self, rows: Iterable[Sequence[Cell]]) -> None:
        """Append rows; where a sheet is full, another one begins.

        Raises:
            OSError: the disk is full.
        """
        for row in rows:
            if self._sheet is None or self._row > _MOST_ROWS:
                self._begin_sheet()
            self._append(row)

    def close(self) -> None:
        """Finish the file.

        Raises:
            OSError: the disk is full.
        """
        if self._sheet is None:
            self._begin_sheet()
        self._book.close()

    def _begin_sheet(self) -> None:
        self._sheet = self._book.add_worksheet()
        self._row = 0
        self._append(self._columns)

    def _append(self, row: Sequence[Cell]) -> None:
        for column, value in enumerate(row):
            cell = plain(value)
            if cell == "":
                continue
            if isinstance(cell, str):
                # Said to be a text, so that nothing is made of it: no formula, no link, no number.
                self._sheet.write_string(self._row, column, cell[:_LONGEST])
            else:
                self._sheet.write_number(self._row, column, cell)
        self._row += 1
