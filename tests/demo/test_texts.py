"""The demo's texts: the matcher finds in each what the corpus says, no more and no less."""

from __future__ import annotations

import random

import pytest

from detectsched.demo.corpus import DEMO_WORDS, images, texts
from detectsched.demo.phrases import FILLERS, NEAR_MISSES, PLAIN, PLANTED
from detectsched.detection import ListVersion, Text
from detectsched.matching.matcher import Matcher
from detectsched.wordlist import ListContent

JUDGES = Matcher({ListVersion("demo", 1): ListContent(DEMO_WORDS)})


def found(text: str) -> tuple[str, ...]:
    """Return the words found, in reading order."""
    return tuple(hit.word for hit in JUDGES.match(Text(text)).hits)


@pytest.mark.parametrize("seed", range(5))
def test_the_matcher_finds_what_was_planted(seed: int) -> None:
    """In a thousand texts: a tenth is planted, and nothing is invented."""
    exhibits = texts(1000, seed)
    assert [found(exhibit.text) for exhibit in exhibits] == [exhibit.planted for exhibit in exhibits]
    assert sum(bool(exhibit.planted) for exhibit in exhibits) == 100


def test_every_phrase_holds_with_every_filling() -> None:
    """No filler completes a word; those planted are found with whatever stands around them."""
    pick = random.Random(4)  # noqa: S311 - reproducible, not secret
    phrases = [*((phrase, ()) for phrase in PLAIN + NEAR_MISSES), *PLANTED]
    for _ in range(30):
        fillers = {name: pick.choice(choices) for name, choices in FILLERS.items()}
        for phrase, planted in phrases:
            assert found(phrase.format(**fillers)) == planted, phrase


def test_the_corpus_is_the_same_for_the_same_seed() -> None:
    """The demo's table does not change from run to run."""
    assert texts(200) == texts(200, 1) != texts(200, 2)


@pytest.mark.parametrize(("count", "planted"), [(0, 0), (1, 1), (10, 1), (11, 2)])
def test_small_counts(count: int, planted: int) -> None:
    """A tenth, rounded up."""
    exhibits = texts(count)
    assert (len(exhibits), sum(bool(exhibit.planted) for exhibit in exhibits)) == (count, planted)


def test_every_word_is_planted_in_a_text_and_most_in_an_image() -> None:
    """The list has no entry that the demo does not show."""
    words = {word.text for word in DEMO_WORDS}
    assert {word for _, planted in PLANTED for word in planted} == words
    assert words - {word for exhibit in images() for word in exhibit.planted} == {"ass"}
