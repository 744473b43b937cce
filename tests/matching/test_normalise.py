"""Folding a text with the way back to its offsets, against a slow reference."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detectsched.matching.folding import fold_character
from detectsched.matching.normalise import normalise, normalise_all

ALPHABET = "aAzÉé9９Ｖｘ身份證証ﬁ㎏ß½①\u200b\u0301\u3000\n \ufe0f👨\u200dꙮ\U000e0100\ud800々ｶﾊ𠮷ﷺ"


def spans(text: str) -> list[tuple[str, int, int]]:
    """Return what ``normalise`` says, character by character."""
    normalised = normalise(text)
    return list(zip(normalised.content, normalised.starts.tolist(), normalised.ends.tolist(), strict=True))


def reference(text: str) -> list[tuple[str, int, int]]:
    """Return the same for a text in which nothing composes, by a plain loop."""
    return [(folded, at, at + 1) for at, character in enumerate(text) for folded in fold_character(character)]


def test_twenty_thousand_random_texts_fold_as_the_reference_does() -> None:
    """Content and offsets are those of the loop over single characters."""
    pick = random.Random(1)  # noqa: S311 - reproducible, not secret
    for _ in range(20_000):
        text = "".join(pick.choices(ALPHABET, k=pick.randrange(12)))
        assert spans(text) == reference(text), ascii(text)


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_has_offsets_that_lead_back(text: str) -> None:
    """Offsets never decrease, stay within the text, and each character comes from where they point."""
    normalised = normalise(text)
    previous = 0
    for content, start, end in spans(text):
        assert previous <= start < end <= len(text)
        assert content in normalise(text[start:end]).content
        previous = start
    assert normalise(normalised.content).content == normalised.content


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("ｶﾞx", [("ガ", 0, 2), ("x", 2, 3)]),
        ("か\u3099", [("が", 0, 2)]),
        ("\u1112\u1161\u11ab글", [("한", 0, 3), ("글", 3, 4)]),
        ("xか\u200b\u3099", [("x", 0, 1), ("が", 1, 4)]),
        ("\u3099か", [("\u3099", 0, 1), ("か", 1, 2)]),
        ("\u0627\u0654", [("\u0623", 0, 2)]),
        ("e\u0301", [("e", 0, 1)]),
    ],
)
def test_what_is_written_in_parts_composes(text: str, want: list[tuple[str, int, int]]) -> None:
    """Half-width kana, jamo and the like become the character that a reader sees, standing for all its parts."""
    assert spans(text) == want


def test_a_character_that_expands_stands_whole_for_each_part() -> None:
    """Half of ㎏ cannot be cut out of the original."""
    normalised = normalise("5㎏")
    assert normalised.content == "5kg"
    assert normalised.span(2, 3) == (1, 2)


@given(st.lists(st.text(st.sampled_from(ALPHABET + "\u3099ﾞ"), max_size=6)))
def test_many_texts_at_once_fold_as_each_by_itself(texts: list[str]) -> None:
    """The batch is a matter of speed only."""
    assert normalise_all(texts) == [normalise(text).content for text in texts]
