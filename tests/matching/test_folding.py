"""The fold table: what characters become, and that the table says so for every one of them."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from detectsched.matching.folding import CODE_POINTS, fold_character, fold_table


@pytest.mark.parametrize(
    ("character", "folded"),
    [
        ("Ｖ", "v"),
        ("Ω", "ω"),
        ("ß", "ss"),
        ("İ", "i"),
        ("㎏", "kg"),
        ("ﬁ", "fi"),
        ("①", "1"),
        ("⑴", "1"),
        ("⒈", "1"),
        ("🄂", "1"),
        ("❶", "1"),
        ("⓫", "11"),
        ("➓", "10"),
        ("⓿", "0"),
        ("٣", "3"),
        ("²", "2"),
        ("㈤", "五"),
        ("㊄", "五"),
        ("🅕", "f"),
        ("🅵", "f"),
        ("🄵", "f"),
        ("證", "证"),
        ("著", "着"),
        ("薴", "苎"),
        ("(", "("),
        (".", "."),
        ("Ⓕ", "f"),
        ("é", "e"),
        ("\u0301", ""),
        ("が", "が"),
        ("각", "각"),
        ("أ", "أ"),
        ("\u200b", ""),
        ("\u200d", ""),
        ("\ufeff", ""),
        ("\ufe0f", ""),
        ("\u3164", ""),
        ("\U000e0041", ""),
        ("\x00", ""),
        ("\n", " "),
        ("\u3000", " "),
        ("\u2028", " "),
        ("\x85", " "),
        ("\ud800", "\ufffd"),
        ("身", "身"),
        ("𠮷", "𠮷"),
        ("⾝", "身"),
        ("👨", "👨"),
    ],
)
def test_characters_fold_as_documented(character: str, folded: str) -> None:
    """Each kind of folding that the module promises."""
    assert fold_character(character) == folded


def test_the_table_says_for_every_code_point_what_the_function_says() -> None:
    """The table visits only some blocks; no code point outside them, in this Unicode version, needs folding."""
    table = fold_table()
    from_table = [chr(code) for code in table.code.tolist()]
    for point in np.flatnonzero(table.length == 0).tolist():
        from_table[point] = ""
    for point in np.flatnonzero(table.length > 1).tolist():
        place, length = int(table.code[point]), int(table.length[point])
        from_table[point] = "".join(map(chr, table.expansions[place : place + length].tolist()))
    wrong = [point for point in range(CODE_POINTS) if from_table[point] != fold_character(chr(point))]
    assert wrong == []


def test_folding_twice_changes_nothing() -> None:
    """Words that were copied from a folded text still match."""
    table = fold_table()
    results = np.concatenate([table.code[table.length == 1], table.expansions])
    assert (table.length[results] == 1).all()
    assert (table.code[results] == results).all()


def test_importing_builds_no_table() -> None:
    """The table costs a fifth of a second: whoever only imports does not pay it."""
    script = """
import detectsched.matching.matcher
from detectsched.matching.folding import fold_table
print(fold_table.cache_info().misses)
"""
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True).stdout == "0\n"
