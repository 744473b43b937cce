"""The cases that users of other libraries reported, and ours: a table, and how every line of it is looked at."""

from __future__ import annotations

import pytest

from detectsched.detection import Text
from detectsched.matching.matcher import Matcher
from detectsched.matching.normalise import normalise
from detectsched.matching.spans import masked, prominent
from detectsched.wordlist import ListContent, ListOptions, Word
from tests.matching.cases import CASES, Case
from tests.matching.judging import LIST, OTHER, hits, matcher


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.source}: {case.text[:20]!a}")
def test_cases(case: Case) -> None:
    """What is found, in what order, and where: the offsets are those of the original."""
    result = hits(case.words, case.text, **case.options)
    assert [(hit.word, hit.matched) for hit in result] == case.want
    for hit in result:
        assert case.text[hit.start : hit.end] == hit.matched


def test_a_hit_leads_back_to_its_word() -> None:
    """What stands there folds to the word again, whatever surrounds it."""
    text = "第一行\r\n\u200b中国\u200b完美ａｂｃ\r\n"
    for hit in hits(["中国", "abc"], text):
        assert normalise(text[hit.start : hit.end]).content == normalise(hit.word).content


def test_tags_and_replacement_come_from_the_word_not_from_what_stands_there() -> None:
    """Whatever noise hides it."""
    (hit,) = hits([Word("毛主席", "leaders", 3, tags=("a", "b"), replacement="[…]")], "说毛#!@主$!@席好")
    assert (hit.category, hit.level, hit.tags, hit.replacement) == ("leaders", 3, ("a", "b"), "[…]")


def test_summaries_prefer_the_longest() -> None:
    """All are reported; what is shown does not overlap."""
    text = "色情网站 a.b 有人"
    result = hits(["色情网", "情网", "情", "网站", Word("有人", replacement="[人]")], text)
    assert [hit.word for hit in prominent(result)] == ["色情网", "有人"]
    assert masked(text, result) == "***站 a.b [人]"
    assert masked(text, []) == text


def test_the_gravest_of_one_place_is_shown() -> None:
    """Two lists, or two spellings, may have the same word."""
    result = hits([Word("VX", level=1), Word("vx", level=5), Word("Vx", level=2)], "vx")
    assert [hit.level for hit in prominent(result)] == [5]


def test_more_hits_than_are_kept_are_cut_and_it_is_said() -> None:
    """The gravest are kept, in the order of the text."""
    judges = matcher("a", Word("b", level=9), max_hits=3)
    whole = judges.match(Text("a b a"))
    assert ([hit.word for hit in whole.hits], whole.cut) == (["a", "b", "a"], False)
    cut = judges.match(Text("a a a a b"))
    assert ([hit.word for hit in cut.hits], cut.cut) == (["a", "a", "b"], True)


def test_a_text_made_to_be_slow_is_not() -> None:
    """The search ends early, long before every prefix of every place is listed."""
    judges = matcher(*("哈" * length for length in range(1, 200)), max_hits=10)
    result = judges.match(Text("哈" * 200_000))
    assert (len(result.hits), result.cut) == (10, True)


def test_lists_are_read_by_their_own_options() -> None:
    """Each by its own, although one search serves them all; the order of lists stays."""
    strict, lenient = ListOptions(homoglyphs=False, max_gap=0), ListOptions(numerals=True)
    judges = Matcher(
        {
            OTHER: ListContent((Word("sex"), Word("枪支"), Word("69")), strict),
            LIST: ListContent((Word("sex"), Word("枪支"), Word("69")), lenient),
        }
    )
    result = judges.match(Text("ѕех 枪*支 六九 sex"))
    assert [(hit.list, hit.word) for hit in result.hits] == [
        (LIST, "sex"),
        (LIST, "枪支"),
        (LIST, "69"),
        (OTHER, "sex"),
        (LIST, "sex"),
    ]


def test_an_allowed_word_takes_nothing_from_another_list() -> None:
    """Lists are independent."""
    judges = Matcher(
        {LIST: ListContent((Word("黄片"), Word("三黄片", allow=True))), OTHER: ListContent((Word("黄片"),))}
    )
    assert [hit.list for hit in judges.match(Text("三黄片")).hits] == [OTHER]
