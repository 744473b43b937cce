"""Which words are found in which texts, and exactly where."""

from __future__ import annotations

import random
import string
import time
from collections.abc import Sequence

import pytest

from detectsched.detection import Hit, ListVersion, Text, Word
from detectsched.errors import InvalidRequest
from detectsched.matching.folding import fold_character
from detectsched.matching.matcher import Matcher
from detectsched.matching.normalise import normalise

LIST = ListVersion("main", 3)
OTHER = ListVersion("other", 1)


def matcher(*words: str) -> Matcher:
    """Return a matcher of one list."""
    return Matcher({LIST: [Word(word) for word in words]})


def found(words: Sequence[str], text: str) -> list[tuple[str, str]]:
    """Return (word, what stands there) of each hit."""
    return [(hit.word, hit.matched) for hit in matcher(*words).match(Text(text))]


# The cases of users of other libraries; the number is that of the table in which they were collected, the value is
# the right one where words of spaced scripts are whole words.
USERS_CASES = [
    (1, ["ass"], "small green grass", []),
    (2, ["av"], "I have a nice day", []),
    (2, ["av"], "看AV吗", [("av", "AV")]),
    (3, ["sb"], "Disburse", []),
    (3, ["sb"], "you SB!", [("sb", "SB")]),
    (6, ["ass"], "assassin", []),
    (7, ["69"], "totaled 695 billion", []),
    (7, ["69"], "69", [("69", "69")]),
    (7, ["69"], "玩69吗", [("69", "69")]),
    (9, ["fuck"], "fFuck", []),
    (10, ["中国", "zg人", "abc"], "中国完美ａｂｃddb好的", [("中国", "中国")]),
    (10, ["abc"], "完美ａｂｃ好的", [("abc", "ａｂｃ")]),
    (15, ["口交"], "路口交通已恢复", [("口交", "口交")]),
    (23, ["下三滥"], "花豹用下三滥招式", [("下三滥", "下三滥")]),
    (30, ["+V"], "请+v详聊", [("+V", "+v")]),
    (30, ["+V"], "+very", []),
    (32, ["第二行"], "第一行\r\n第二行\r\n第三行", [("第二行", "第二行")]),
    (33, ["fu("], "fu(", [("fu(", "fu(")]),
    (33, ["a.c"], "abc a.c", [("a.c", "a.c")]),
    (34, ["test"], "测试test123", []),
    (34, ["test"], "测试test好", [("test", "test")]),
    (35, ["she", "he", "say", "shr", "her"], "yasherhs", []),
    (
        35,
        ["色情网", "情网", "情", "网站"],
        "色情网站",
        [("情", "情"), ("情网", "情网"), ("网站", "网站"), ("色情网", "色情网")],
    ),
    (38, ["\ufeffhello"], "hello", [("\ufeffhello", "hello")]),
    (42, ["手机魔卡"], "手机", []),
    (
        43,
        ["👨", "👦", "👨\u200d👩\u200d👦"],
        "👨\u200d👩\u200d👦",
        [("👦", "👦"), ("👨", "👨"), ("👨\u200d👩\u200d👦", "👨\u200d👩\u200d👦")],
    ),
    (45, ["🔫"], "送你🔫\ufe0f一把", [("🔫", "🔫")]),
]


@pytest.mark.parametrize(("number", "words", "text", "want"), USERS_CASES)
def test_cases_that_users_of_other_libraries_reported(
    number: int, words: list[str], text: str, want: list[tuple[str, str]]
) -> None:
    """Whole words in spaced scripts, substrings in others, literal patterns, any width and case."""
    assert sorted(found(words, text)) == want, number


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
        ("枪 支", "枪支"),
        ("枪支", "枪\n支"),
    ],
)
def test_what_is_no_match(word: str, text: str) -> None:
    """Parts of words, voiced kana, and line breaks that somebody typed."""
    assert found([word], text) == []


def test_a_hit_says_everything() -> None:
    """Word as the list has it, its category and level, place, list and version."""
    (hit,) = Matcher({LIST: [Word("Vx", "contact", 2)]}).match(Text("加ＶＸ"))
    assert hit == Hit("Vx", "contact", 2, 1, 3, "ＶＸ", LIST)


def test_the_same_word_in_several_lists_is_reported_for_each() -> None:
    """Each with its own spelling, category and level; within one list the first of equal words counts."""
    judges = Matcher(
        {
            OTHER: [Word("vx", "spam", 1), Word("vx", "late", 9)],
            LIST: [Word("ＶＸ", "contact", 2), Word("vx", "contact", 3)],
        }
    )
    assert judges.lists == (OTHER, LIST)
    assert [(hit.list, hit.word, hit.category, hit.level) for hit in judges.match(Text("vx"))] == [
        (OTHER, "vx", "spam", 1),
        (LIST, "ＶＸ", "contact", 2),
        (LIST, "vx", "contact", 3),
    ]


def test_one_place_is_reported_once() -> None:
    """㍇ folds to マンション: what is found twice within one character is that one character, once."""
    assert [(hit.start, hit.end) for hit in matcher("ン").match(Text("㍇ン"))] == [(0, 1), (1, 2)]


@pytest.mark.parametrize("word", ["", " ", "\ufeff", "\u200b\u200d", "\u3000\n"])
def test_a_word_without_content_is_refused(word: str) -> None:
    """It would be found everywhere, or nowhere."""
    with pytest.raises(InvalidRequest, match="list main"):
        matcher("fine", word)


@pytest.mark.parametrize("lists", [{}, {LIST: []}])
def test_no_words_find_nothing(lists: dict[ListVersion, list[Word]]) -> None:
    """A tenant without words is served like others."""
    assert Matcher(lists).match(Text("anything")) == ()
    assert Matcher(lists).lists == tuple(lists)


def test_empty_and_odd_texts() -> None:
    """Nothing, noise, and a lone surrogate."""
    for text in ("", "\u200b", "\n", "\ud800"):
        assert found(["a"], text) == []
    assert found(["a"], "\ud800a\udfff") == [("a", "a")]


ALPHABET = "abAＢ１2枪支\u200b ﬁ㎏éか"
SPACED = frozenset(string.ascii_lowercase + string.digits)


def brute_force(words: Sequence[str], text: str) -> list[tuple[int, int, str]]:
    """Return what must be found, by trying every word at every place of the text."""
    parts = [(folded, at) for at, character in enumerate(text) for folded in fold_character(character)]
    content = "".join(folded for folded, _ in parts)
    places = set()
    for word in words:
        sought = "".join(map(fold_character, word)).strip()
        for low in range(len(content)):
            high = low + len(sought)
            inside_left = low > 0 and {content[low - 1], content[low]} <= SPACED
            inside_right = high < len(content) and {content[high - 1], content[high]} <= SPACED
            if content.startswith(sought, low) and not inside_left and not inside_right:
                places.add((parts[low][1], parts[high - 1][1] + 1, word))
    return sorted(places)


def test_twenty_thousand_random_cases_agree_with_brute_force() -> None:
    """Every word at every place and no other; what stands at a hit folds to the word."""
    pick = random.Random(2)  # noqa: S311 - reproducible, not secret
    hits = 0
    for _ in range(20_000):
        words = ["".join(pick.choices(ALPHABET, k=pick.randint(1, 3))) for _ in range(pick.randint(1, 4))]
        words = [word for word in words if normalise(word).content.strip()]
        text = "".join(pick.choices(ALPHABET, k=pick.randrange(14)))
        result = matcher(*words).match(Text(text))
        assert sorted((hit.start, hit.end, hit.word) for hit in result) == brute_force(words, text), (words, text)
        assert [(hit.start, hit.end) for hit in result] == sorted((hit.start, hit.end) for hit in result)
        for hit in result:
            assert hit.matched == text[hit.start : hit.end]
            assert normalise(hit.word).content.strip() in normalise(hit.matched).content
        hits += len(result)
    assert hits > 4_000


def test_a_hundred_thousand_words(capsys: pytest.CaptureFixture[str]) -> None:
    """They compile, and each is found; the times are printed for the curious."""
    pick = random.Random(3)  # noqa: S311 - reproducible, not secret
    han = [chr(code) for code in range(0x4E00, 0x6000)]
    words = ["".join(pick.choices(han, k=pick.randint(2, 6))) for _ in range(80_000)]
    words += ["".join(pick.choices(string.ascii_lowercase, k=pick.randint(5, 12))) for _ in range(20_000)]
    begun = time.perf_counter()
    judges = matcher(*words)
    built = time.perf_counter()
    text = "。".join(words[::100])
    hits = {hit.word for hit in judges.match(Text(text))}
    searched = time.perf_counter()
    with capsys.disabled():
        print(f"\n100,000 words: built in {built - begun:.2f} s, {len(text)} characters in {searched - built:.3f} s")
    assert set(words[::100]) <= hits
