"""No cell of an export is taken for a formula, however it is opened; and what is harmless stays as it is."""

from __future__ import annotations

import csv
import io
import re
import sys
import unicodedata
from datetime import UTC, date, datetime
from pathlib import Path

import hypothesis
import openpyxl
import pytest
from hypothesis import strategies as st

from detectsched.api.spreadsheet import TRIGGERS, Workbook, csv_of, neutral, said

SIGNS = tuple("=+-@")
texts = st.lists(
    st.sampled_from([*TRIGGERS, *" \t\r\n\u3000\ufeff\u200b\xa0'\",;|", "a", "1", "命", "cmd()"]), max_size=8
).map("".join)


def begins_formula(cell: str) -> bool:
    """Whether a spreadsheet that strips blanks and quotes and folds widths sees a formula."""
    seen = "".join(character for character in unicodedata.normalize("NFKC", cell) if character.isprintable())
    return seen.strip(' "').startswith((*SIGNS, "\u2212"))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("=1+1", "'=1+1"),
        ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
        ("-2", "'-2"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("  =1", "'  =1"),
        ("\u3000＝1", "'\u3000＝1"),
        ("\ufeff\u200b=1", "'\ufeff\u200b=1"),
        ("＋1", "'＋1"),
        ("\tx", "'\tx"),
        ("\rx", "'\rx"),
        ("a;=1", "a;'=1"),
        ('a,"=1', "a,\"'=1"),
        ("a\n@b", "a\n'@b"),
        ("gift card", "gift card"),
        ("a-b=c", "a-b=c"),
        ("aa:bb:cc:dd:ee:01", "aa:bb:cc:dd:ee:01"),
        ("刷单返利", "刷单返利"),
        ("", ""),
    ],
)
def test_texts(text: str, wanted: str) -> None:
    """Each sign, each way to hide it, and texts that stay."""
    assert neutral(text) == wanted


@hypothesis.settings(derandomize=True, database=None, deadline=None, max_examples=500)
@hypothesis.given(st.lists(texts, min_size=1, max_size=4))
def test_no_cell_begins_a_formula_under_any_separator(row: list[str]) -> None:
    """Read back with commas it is the row; with semicolons or tabs there are other cells, and no formula either."""
    text = csv_of([row]).decode()
    [cells] = list(csv.reader(io.StringIO(text, newline="")))
    assert cells == [neutral(value) for value in row]
    for cell in cells:
        assert not begins_formula(cell), repr(cell)
        assert not cell.startswith(("\t", "\r", "\n"))
    for separator in ";\t":
        for line in csv.reader(io.StringIO(text, newline=""), delimiter=separator, quoting=csv.QUOTE_NONE):
            for cell in line[1:]:
                assert not begins_formula(cell), (separator, cell)


def test_every_sign_that_folds_to_a_trigger_is_one() -> None:
    """Compatibility forms of all of Unicode."""
    folding = {
        chr(code)
        for code in range(sys.maxunicode + 1)
        if not 0xD800 <= code <= 0xDFFF and unicodedata.normalize("NFKC", chr(code)).startswith((*SIGNS, "\u2212"))
    }
    assert folding <= set(TRIGGERS)


def test_values_that_are_no_texts() -> None:
    """Numbers stay numbers, also negative ones."""
    row = [None, True, -1, 2.5, datetime(2026, 1, 2, tzinfo=UTC), date(2026, 1, 2)]
    assert csv_of([row]) == b",true,-1,2.5,2026-01-02T00:00:00Z,2026-01-02\r\n"


def test_a_workbook_holds_texts_as_texts(tmp_path: Path) -> None:
    """Neither formulas nor links nor numbers are made of them; an empty table has its heads."""
    book = Workbook(tmp_path / "a.xlsx", ["word", "hits"])
    book.write([["=1+1", -3], ["http://x.example", 1.5], ["123", None], ["x" * 40_000, 0]])
    book.close()
    sheet = openpyxl.load_workbook(tmp_path / "a.xlsx").worksheets[0]
    rows = [[cell.value for cell in row] for row in sheet.iter_rows()]
    assert rows[:4] == [["word", "hits"], ["'=1+1", -3], ["http://x.example", 1.5], ["123", None]]
    assert len(str(rows[4][0])) == 32_767
    assert {cell.data_type for row in sheet.iter_rows() for cell in row} <= {"s", "n", "inlineStr"}
    assert sheet["A3"].hyperlink is None
    empty = Workbook(tmp_path / "b.xlsx", ["word"])
    empty.close()
    assert openpyxl.load_workbook(tmp_path / "b.xlsx").worksheets[0]["A1"].value == "word"


def test_a_full_sheet_is_followed_by_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with the heads."""
    monkeypatch.setattr("detectsched.api.spreadsheet._MOST_ROWS", 2)
    book = Workbook(tmp_path / "a.xlsx", ["n"])
    book.write([[number] for number in range(5)])
    book.close()
    sheets = openpyxl.load_workbook(tmp_path / "a.xlsx").worksheets
    assert [[cell.value for cell in sheet["A"]] for sheet in sheets] == [["n", 0, 1], ["n", 2, 3], ["n", 4]]


@hypothesis.given(texts)
def test_what_was_neutralised_can_be_read_back(text: str) -> None:
    """An export that is imported again holds the same words; an apostrophe before a tab or a line break is lost."""
    hypothesis.assume(not re.match("'[\\s\ufeff\u200b']*[\t\r\n]", text))
    assert said(neutral(text)) == text


@pytest.mark.parametrize("cell", ["", "a", "'a", "it's", "a, 'b'", "'"])
def test_what_was_not_is_read_as_it_is(cell: str) -> None:
    """Quotation marks that somebody wrote stay."""
    assert said(cell) == cell
