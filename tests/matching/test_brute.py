"""Random lists under random options over random texts: what is found is what brute force finds, offset by offset."""

from __future__ import annotations

import os
import random
from typing import Final

from detectsched.detection import Text
from detectsched.matching.matcher import Matcher
from detectsched.matching.normalise import normalise
from detectsched.wordlist import AllowRule, ListContent, ListOptions, Mode, Noise, Repeats, Word
from tests.matching.brute import Brute
from tests.matching.judging import LIST

CASES: Final = int(os.environ.get("DETECTSCHED_FUZZ_CASES", "2500"))
"""A hundred thousand take some minutes; they are run when the matcher changes."""
WORDS: Final = "abAＢ１2枪支證ба\u200bﬁ㎏é六o0l "
TEXT: Final = "aabbAＢ１12枪枪支證ба\u200b  ﬁ㎏é六o0l..,*\n\r"


def test_random_cases_agree_with_brute_force() -> None:
    """Every word at every place and no other; half of the texts hold words that were broken on purpose."""
    pick = random.Random(2)  # noqa: S311 - reproducible, not secret
    total = broken = 0
    for _ in range(CASES):
        options = some_options(pick)
        words = some_words(pick)
        text = some_text(pick, words)
        result = Matcher({LIST: ListContent(tuple(words), options)}, max_hits=100_000).match(Text(text))
        found = sorted((hit.start, hit.end, hit.word) for hit in result.hits)
        assert found == Brute(text, options).found(words), (words, text, options)
        assert all(hit.matched == text[hit.start : hit.end] for hit in result.hits)
        total += len(found)
        broken += sum(normalise(hit.word).content.strip() not in normalise(hit.matched).content for hit in result.hits)
    assert total > CASES
    assert broken > CASES // 50


def some_options(pick: random.Random) -> ListOptions:
    """Return options, often those that lists have unless told otherwise."""
    if pick.random() < 0.3:
        return ListOptions()
    return ListOptions(
        mode=pick.choice(list(Mode)),
        repeats=pick.choice(list(Repeats)),
        noise=tuple(pick.sample(list(Noise), pick.randrange(len(Noise) + 1))),
        max_gap=pick.choice([0, 1, 2, 4]),
        across_lines=pick.random() < 0.3,
        homoglyphs=pick.random() < 0.5,
        numerals=pick.random() < 0.3,
        confusions=pick.random() < 0.3,
        allow=pick.choice(list(AllowRule)),
    )


def some_words(pick: random.Random) -> list[Word]:
    """Return distinct words with something to be seen."""
    texts = {"".join(pick.choices(WORDS, k=pick.randint(1, 4))) for _ in range(pick.randint(1, 4))}
    return [
        Word(text, mode=pick.choice([None, None, *Mode]), allow=pick.random() < 0.1)
        for text in sorted(texts)
        if normalise(text).content.strip()
    ]


def some_text(pick: random.Random, words: list[Word]) -> str:
    """Return noise around the words, some of them with noise and repetitions in them."""
    parts: list[str] = []
    for _ in range(pick.randint(1, 4)):
        parts.append("".join(pick.choices(TEXT, k=pick.randrange(4))))
        if words and pick.random() < 0.7:
            word = pick.choice(words).text
            for _ in range(pick.randrange(4)):
                at = pick.randrange(len(word) + 1)
                word = word[:at] + pick.choice([word[max(0, at - 1) : at] * 2, *".,* \n1"]) + word[at:]
            parts.append(word)
    return "".join(parts)
