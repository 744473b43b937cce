"""The tables of characters that stand for others."""

from __future__ import annotations

import unicodedata

import numpy as np
import pytest

from detectsched.matching.folding import CODE_POINTS, Folding, fold_character, fold_table
from detectsched.matching.variants import confusions, look_alikes, numerals, simplified
from tools.simplified import TARGET, table

ALL = Folding(homoglyphs=True, numerals=True, confusions=True)


def test_the_table_of_traditional_characters_is_what_opencc_says() -> None:
    """It is kept in the source; ``python -m tools.simplified`` makes it anew."""
    assert TARGET.read_text("utf-8") == table()


@pytest.mark.parametrize("pairs", [simplified(), look_alikes(), numerals(), confusions()])
def test_what_stands_for_another_is_folded_itself_and_settled(pairs: dict[str, str]) -> None:
    """A chain, or a key that folding removes first, would do nothing or half."""
    for one, other in pairs.items():
        assert len(one) == len(other) == 1
        assert fold_character(other) == other
        assert pairs.get(other, other) == other
        assert pairs is not look_alikes() or fold_character(one) == one, one


def test_every_look_alike_has_the_shape_of_a_letter() -> None:
    """Letters of other alphabets, and of flags; none of them ASCII."""
    for one, other in look_alikes().items():
        assert not one.isascii()
        assert other.isascii()
        assert other.isalpha()
        assert unicodedata.category(one) in {"Ll", "Lo", "So", "Lm"}, one


def test_a_table_with_further_steps_says_what_the_function_says() -> None:
    """For every code point, those that become several included."""
    folded = fold_table(ALL)
    several = folded.length > 1
    for point in [*range(0x2000), *range(0x4E00, 0x9FFF, 7), *np.flatnonzero(several).tolist()]:
        place, length = int(folded.code[point]), int(folded.length[point])
        codes = folded.expansions[place : place + length].tolist() if length > 1 else [place] * length
        assert "".join(map(chr, codes)) == fold_character(chr(point), ALL), hex(point)
    assert len(folded.code) == CODE_POINTS


@pytest.mark.parametrize("folding", [Folding(), Folding(True), Folding(False, True), ALL])
def test_folding_twice_changes_nothing(folding: Folding) -> None:
    """Whatever is folded beside what always is."""
    folded = fold_table(folding)
    results = np.concatenate([folded.code[folded.length == 1], folded.expansions])
    assert (folded.length[results] == 1).all()
    assert (folded.code[results] == results).all()
