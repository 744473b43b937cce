"""Which words are found in which texts, and exactly where."""

from __future__ import annotations

import random
import string
import time

import pytest

from detectsched.detection import Detection, Hit, ListVersion, Text
from detectsched.errors import InvalidRequest
from detectsched.matching.matcher import Matcher
from detectsched.wordlist import ListContent, Word
from tests.matching.judging import LIST, OTHER, found, matcher


@pytest.mark.parametrize(
    ("word", "text", "want"),
    [
        ("刷单返利", "刷\u200b单\u200d返\ufeff利！", "刷\u200b单\u200d返\ufeff利"),
        ("vx", "加ＶＸ：", "ＶＸ"),
        ("ＶＸ", "加vx：", "vx"),
        ("café", "un cafe\u0301 noir", "cafe"),
        ("cafe", "un CAFÉ noir", "CAFÉ"),
        ("straße", "STRASSE", "STRASSE"),
        ("kg", "重㎏", "㎏"),
        ("5kg", "重5㎏", "5㎏"),
        ("クレカ", "偽ｸﾚｶ", "ｸﾚｶ"),
        ("ガチャ", "偽ｶﾞﾁｬ", "ｶﾞﾁｬ"),
        ("メガ", "偽ﾒｶﾞ", "ﾒｶﾞ"),
        ("online casino", "an ONLINE\u3000casino!", "ONLINE\u3000casino"),
        ("наркотик", "Наркотик.", "Наркотик"),
        ("  枪支 ", "买枪支", "枪支"),
        ("conﬁdential", "CONFIDENTIAL", "CONFIDENTIAL"),
    ],
)
def test_spellings_that_mean_the_same_meet(word: str, text: str, want: str) -> None:
    """Words and text are folded alike, and what stands there is told in the original spelling."""
    assert found([word], text) == [(word, want)]


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("g", "5㎏"),
        ("ass", "pass"),
        ("ass", "ass\u200bassin"),
        ("vx", "vx1"),
        ("vx", "1vx"),
        ("vx", "éVXé"),
        ("кот", "наркотик"),
        ("か", "が"),
        ("か", "か\u3099"),
        ("枪支", "枪\n支"),
    ],
)
def test_what_is_no_match(word: str, text: str) -> None:
    """Parts of words, voiced kana, and line breaks that somebody typed."""
    assert found([word], text) == []


def test_a_hit_says_everything() -> None:
    """Word as the list has it, its category and level, place, list and version."""
    (hit,) = matcher(Word("Vx", "contact", 2)).match(Text("加ＶＸ")).hits
    assert hit == Hit("Vx", "contact", 2, 1, 3, "ＶＸ", LIST)


def test_the_same_word_in_several_lists_is_reported_for_each() -> None:
    """Each with its own spelling, category and level; within one list the first of equal words counts."""
    judges = Matcher(
        {
            OTHER: ListContent((Word("vx", "spam", 1), Word("vx", "late", 9))),
            LIST: ListContent((Word("ＶＸ", "contact", 2), Word("vx", "contact", 3))),
        }
    )
    assert judges.lists == (OTHER, LIST)
    assert [(hit.list, hit.word, hit.category, hit.level) for hit in judges.match(Text("vx")).hits] == [
        (OTHER, "vx", "spam", 1),
        (LIST, "ＶＸ", "contact", 2),
        (LIST, "vx", "contact", 3),
    ]


def test_one_place_is_reported_once() -> None:
    """㍇ folds to マンション: what is found twice within one character is that one character, once."""
    assert [(hit.start, hit.end) for hit in matcher("ン").match(Text("㍇ン")).hits] == [(0, 1), (1, 2)]


@pytest.mark.parametrize("word", ["", " ", "\ufeff", "\u200b\u200d", "\u3000\n"])
def test_a_word_without_content_is_refused(word: str) -> None:
    """It would be found everywhere, or nowhere."""
    with pytest.raises(InvalidRequest, match="nothing that can be seen"):
        matcher("fine", word)


@pytest.mark.parametrize("lists", [{}, {LIST: ListContent()}])
def test_no_words_find_nothing(lists: dict[ListVersion, ListContent]) -> None:
    """A tenant without words is served like others."""
    assert Matcher(lists).match(Text("anything")) == Detection((), tuple(lists))
    assert Matcher(lists).lists == tuple(lists)


def test_empty_and_odd_texts() -> None:
    """Nothing, noise, and a lone surrogate."""
    for text in ("", "\u200b", "\n", "\ud800"):
        assert found(["a"], text) == []
    assert found(["a"], "\ud800a\udfff") == [("a", "a")]


def test_a_hundred_thousand_words(capsys: pytest.CaptureFixture[str]) -> None:
    """They compile, and each is found; the times are printed for the curious."""
    pick = random.Random(3)  # noqa: S311 - reproducible, not secret
    han = [chr(code) for code in range(0x4E00, 0x6000)]
    words = ["".join(pick.choices(han, k=pick.randint(2, 6))) for _ in range(80_000)]
    words += ["".join(pick.choices(string.ascii_lowercase, k=pick.randint(5, 12))) for _ in range(20_000)]
    begun = time.perf_counter()
    judges = matcher(*words, max_hits=5000)
    built = time.perf_counter()
    text = "。".join(words[::100])
    hits = {hit.word for hit in judges.match(Text(text)).hits}
    searched = time.perf_counter()
    with capsys.disabled():
        print(f"\n100,000 words: built in {built - begun:.2f} s, {len(text)} characters in {searched - built:.3f} s")
    assert set(words[::100]) <= hits
