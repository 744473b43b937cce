"""Word lists as files: CSV with a header, or one word per line. Whatever is wrong is told with its line.

Files come from spreadsheets and editors of all kinds: with a byte order mark, with any line ends, with semicolons or
tabs for commas, in an encoding that is not UTF-8. Nothing is guessed where a guess could change a word.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from pydantic import ValidationError

from detectsched.api.list_lint import folded, warnings_of
from detectsched.api.lists import MOST_WORDS, WordEntry, word_of
from detectsched.api.problems import refusal_of
from detectsched.api.spreadsheet import said
from detectsched.errors import InvalidRequest
from detectsched.wordlist import Mode, Word

COLUMNS: Final = ("text", "category", "level", "mode", "allow", "tags", "replacement")
MOST_TOLD: Final = 100
"""Errors, and warnings, that are told in words; of more the number."""

_DELIMITERS: Final = ",;\t"
_LINE_END: Final = re.compile("\r\n|\n|\r")
_UNDECODED: Final = re.compile("[\udc80-\udcff]")
_BOOLEANS: Final = {"": False, "true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_MOST_LINES: Final = 2 * MOST_WORDS
"""Lines that are looked at: words, and as many that are empty, twice there or wrong."""


class FileFormat(StrEnum):
    """What kind of file a list is read from."""

    CSV = "csv"
    """A header with `text` and any of `category`, `level`, `mode`, `allow`, `tags`, `replacement`; then the words."""
    TXT = "txt"
    """One word per line."""


@dataclass(frozen=True, slots=True)
class Remark:
    """Something about a line, from 1."""

    line: int
    detail: str


@dataclass(slots=True)
class Remarks:
    """Remarks as far as they are told, and how many there are."""

    count: int = 0
    told: list[Remark] = field(default_factory=list)

    def add(self, line: int, detail: str) -> None:
        """Take one more."""
        self.count += 1
        if len(self.told) < MOST_TOLD:
            self.told.append(Remark(line, detail))


@dataclass(slots=True)
class Imported:
    """What a file holds: its words, each (text, allow) once, and what is to be said about its lines."""

    lines: int = 0
    blank: int = 0
    words: list[Word] = field(default_factory=list)
    errors: Remarks = field(default_factory=Remarks)
    warnings: Remarks = field(default_factory=Remarks)


def read(data: bytes, form: FileFormat, *, category: str = "default", level: int = 1) -> Imported:
    """Return what a file holds. Takes a thread: up to some seconds, in small steps of Python.

    ``category`` and ``level`` are those of words for which the file says none.

    Raises:
        InvalidRequest: the whole cannot be read: it is no text, or has no good header, or is too long.
    """
    text = _decoded(data)
    found = Imported()
    reader = _Reader(found, category, level)
    for line, cells in _rows(text, found) if form is FileFormat.CSV else _lines(text):
        if line > _MOST_LINES:
            raise InvalidRequest(f"the file has more than {_MOST_LINES} lines; split it, or take empty lines out")
        found.lines += 1
        reader.take(line, cells)
    reader.finish()
    if len(found.words) > MOST_WORDS:
        raise InvalidRequest(f"the file holds {len(found.words)} words; a list has at most {MOST_WORDS}")
    return found


def _decoded(data: bytes) -> str:
    """Return the text; bytes that are no UTF-8 become halves of surrogate pairs, to be told with their line."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InvalidRequest("the file is in UTF-16 ('Unicode text'): save it as UTF-8")
    return data.removeprefix(b"\xef\xbb\xbf").decode(errors="surrogateescape")


def _lines(text: str) -> Iterator[tuple[int, dict[str, str]]]:
    lines = _LINE_END.split(text)
    if not lines[-1]:
        lines.pop()
    yield from ((number, {"text": line}) for number, line in enumerate(lines, start=1))


def _rows(text: str, found: Imported) -> Iterator[tuple[int, dict[str, str]]]:
    header, _, _ = text.partition("\n")
    delimiter = max(_DELIMITERS, key=lambda each: len(_names(header, each)))
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    # A cell that spans lines is told by the line where its row begins.
    columns: list[str] | None = None
    begins = 1
    try:
        for row in reader:
            line, begins = begins, reader.line_num + 1
            if columns is None:
                columns = _header(row)
            elif len(row) > len(columns) and any(row[len(columns) :]):
                found.lines += 1
                found.errors.add(line, f"there are {len(row)} cells, and {len(columns)} columns: quote commas in words")
            else:
                yield line, dict(zip(columns, map(said, row), strict=False))
    except csv.Error as error:
        found.errors.add(begins, f"from here on the file cannot be read as CSV: {error}")
    if columns is None and not found.errors.count:
        raise InvalidRequest("the file is empty: its first line must name the columns, text at least", field="line 1")


def _names(header: str, delimiter: str) -> set[str]:
    return {name.strip().strip('"').lower() for name in header.split(delimiter)} & set(COLUMNS)


def _header(row: Sequence[str]) -> list[str]:
    columns = [name.strip().lower() for name in row]
    while columns and not columns[-1]:
        columns.pop()
    unknown = [name for name in columns if name not in COLUMNS]
    known = ", ".join(COLUMNS)
    if "text" not in columns:
        shown = ", ".join(map(repr, columns[:10]))
        raise InvalidRequest(
            f"the first line must name the columns, text at least; it names {shown or 'none'}; known are {known}",
            field="line 1",
        )
    if unknown:
        raise InvalidRequest(f"there is no column {unknown[0][:80]!r}; the columns are: {known}", field="line 1")
    if len(set(columns)) < len(columns):
        raise InvalidRequest("a column stands twice in the first line", field="line 1")
    return columns


class _Reader:
    """Makes words of lines."""

    def __init__(self, found: Imported, category: str, level: int) -> None:
        self._found = found
        self._defaults: dict[str, Any] = {"category": category, "level": level}
        self._first: dict[tuple[str, bool], int] = {}
        self._lines: list[int] = []

    def take(self, line: int, cells: dict[str, str]) -> None:
        """Take one line."""
        found = self._found
        cells = {name: cell.strip() for name, cell in cells.items()}
        if not any(cells.values()):
            found.blank += 1
            return
        if wrong := next(filter(None, map(_UNDECODED.search, cells.values())), None):
            byte = ord(wrong.group()) - 0xDC00
            found.errors.add(line, f"this is not UTF-8 (byte 0x{byte:02X}): save the file as UTF-8, not as GBK or ANSI")
            return
        try:
            word = word_of(WordEntry.model_validate(self._defaults | _fields(cells)))
        except ValidationError as error:
            found.errors.add(line, refusal_of(error).detail)
            return
        except ValueError as error:
            found.errors.add(line, str(error))
            return
        key = word.text, word.allow
        if key in self._first:
            found.warnings.add(line, f"{word.text!r} stands in line {self._first[key]} already, which counts")
            return
        self._first[key] = line
        self._lines.append(line)
        found.words.append(word)

    def finish(self) -> None:
        """Look at all words together."""
        found = self._found
        seen = folded(found.words)
        for place, detail in warnings_of(found.words, seen):
            found.warnings.add(self._lines[place], detail)
        for line, word, text in zip(self._lines, found.words, seen, strict=True):
            if not text:
                found.errors.add(line, f"{word.text!r} holds nothing that can be seen: take it out")
        found.words = [word for word, text in zip(found.words, seen, strict=True) if text]
        for remarks in (found.errors, found.warnings):
            remarks.told.sort(key=lambda remark: remark.line)


def _fields(cells: dict[str, str]) -> dict[str, Any]:
    """Return the fields that cells say something about.

    Raises:
        ValueError: a cell cannot be read.
    """
    fields: dict[str, Any] = {"text": cells.get("text", "")}
    if cells.get("category"):
        fields["category"] = cells["category"]
    if cells.get("level"):
        if not re.fullmatch("[0-9]{1,9}(\\.0+)?", cells["level"]):
            raise ValueError(f"level {cells['level'][:20]!r} is no whole number from 1 to 100")
        fields["level"] = int(float(cells["level"]))
    if cells.get("mode"):
        if cells["mode"].lower() not in set(Mode):
            raise ValueError(f"mode {cells['mode'][:20]!r} is neither 'word' nor 'substring'")
        fields["mode"] = Mode(cells["mode"].lower())
    allow = cells.get("allow", "").lower()
    if allow not in _BOOLEANS:
        raise ValueError(f"allow {allow[:20]!r} is neither 'true' nor 'false'")
    fields["allow"] = _BOOLEANS[allow]
    if cells.get("tags"):
        fields["tags"] = tuple(filter(None, map(str.strip, cells["tags"].split("|"))))
    # An empty cell is no replacement: nothing shows in place of the word only where JSON says so.
    if cells.get("replacement"):
        fields["replacement"] = cells["replacement"]
    return fields


def cells_of(word: Word) -> list[Any]:
    """Return the cells of a word under `COLUMNS`."""
    mode = None if word.mode is None else word.mode.value
    return [word.text, word.category, word.level, mode, word.allow, "|".join(word.tags), word.replacement]
