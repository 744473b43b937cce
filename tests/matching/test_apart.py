"""Lists that are compiled in a process of their own."""

from __future__ import annotations

import asyncio

import pytest

from detectsched.detection import Text
from detectsched.errors import InvalidRequest
from detectsched.matching.apart import compile_apart
from detectsched.matching.automaton import PART
from detectsched.matching.matcher import Matcher
from detectsched.wordlist import ListContent, ListOptions, Mode, Rule, RuleKind, SearchLibrary, Word
from tests.matching.judging import LIST, OTHER

_PART = PART[SearchLibrary.AHOCORASICK_RS]


@pytest.mark.parametrize("library", SearchLibrary)
async def test_a_matcher_compiled_apart_judges_as_one_compiled_here(library: SearchLibrary) -> None:
    """Words of every kind, in two lists that are read differently."""
    odd = (Word("hell", mode=Mode.SUBSTRING), Word("hello", allow=True), Word("a bb c"), Word("刷单"), Word("69"))
    lists = {
        LIST: ListContent(odd, ListOptions(pinyin=True, split=True, rules=(Rule(RuleKind.MOBILE),))),
        OTHER: ListContent((Word("六九"), *odd), ListOptions(numerals=True, max_gap=0)),
    }
    text = Text("hell shell hello a bb c, a-bb c shuadan 刷*单 69 六九 13800138000")
    apart = Matcher(lists, await compile_apart(list(lists.values()), library))
    assert apart.match(text) == Matcher(lists).match(text)
    assert len(apart.match(text).hits) > 10


@pytest.mark.parametrize("library", SearchLibrary)
async def test_a_list_that_comes_back_in_many_pieces_is_whole(library: SearchLibrary) -> None:
    """More words than a part of the automaton has, all with spaces and doubled letters, which come apart."""
    lists = {LIST: ListContent(tuple(Word(f"book {number:05}") for number in range(_PART + 2_000)))}
    numbers = [0, 4_999, 5_000, _PART - 1, _PART, _PART + 1_999, _PART + 2_000]
    text = Text(" ".join(f"boook {number:05} b-o-o-k-{number:05}" for number in numbers))
    apart = Matcher(lists, await compile_apart(list(lists.values()), library))
    found = apart.match(text)
    assert found == Matcher(lists).match(text)
    assert {hit.word for hit in found.hits} == {f"book {number:05}" for number in numbers[:-1]}


async def test_what_is_wrong_is_told_as_if_it_had_been_found_here() -> None:
    """The message crosses the process."""
    with pytest.raises(InvalidRequest, match="nothing that can be seen"):
        await compile_apart([ListContent((Word("\u200b"),))])


async def test_one_that_is_not_waited_for_is_ended() -> None:
    """Its tenant's task was cancelled, or the runner stops."""
    compiling = asyncio.create_task(compile_apart([ListContent(tuple(Word(f"word {n}") for n in range(50_000)))]))
    await asyncio.sleep(0)
    compiling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await compiling
