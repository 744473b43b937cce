"""Both libraries, in any parts, find what brute force finds."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from detectsched.errors import ConfigurationError
from detectsched.matching.automaton import PART, Automaton, build, require
from detectsched.wordlist import SearchLibrary

RS, PY = SearchLibrary.AHOCORASICK_RS, SearchLibrary.PYAHOCORASICK
_LETTERS = "ab枪é\U0001f468\u200d"
"""Of one to four bytes in UTF-8: places are counted in characters."""


def brute(keys: Sequence[str], text: str) -> set[tuple[int, int, int]]:
    """Return number, start and end of every key, by looking at every place."""
    return {
        (number, start, start + len(key))
        for number, key in enumerate(keys)
        for start in range(len(text))
        if text.startswith(key, start)
    }


def some_keys(pick: random.Random, most: int, longest: int) -> list[str]:
    """Return distinct keys in any order."""
    return list(
        dict.fromkeys("".join(pick.choices(_LETTERS, k=pick.randint(1, longest))) for _ in range(pick.randint(1, most)))
    )


def test_random_keys_are_found_at_all_places_however_they_are_parted() -> None:
    """Each find once, numbered through all parts."""
    pick = random.Random(5)  # noqa: S311 - reproducible, not secret
    found = 0
    for _ in range(3000):
        keys = some_keys(pick, 9, 4)
        text = "".join(pick.choices(_LETTERS, k=pick.randrange(30)))
        cut = pick.randrange(len(keys))
        for library in SearchLibrary:
            automaton = Automaton(build(part, library) for part in (keys[:cut], keys[cut:]) if part)
            finds = list(automaton.find(text))
            assert len(finds) == len(set(finds))
            assert set(finds) == brute(keys, text), (library, keys, text)
        found += len(finds)
    assert found > 5_000


@pytest.mark.parametrize(("longest", "length"), [(3, 40_000), (12, 40_000), (400, 4_000)])
def test_a_long_text_is_searched_in_stretches_without_a_loss(longest: int, length: int) -> None:
    """Also keys that lie across the end of a stretch; the more lengths the keys have, the shorter a stretch."""
    pick = random.Random(longest)  # noqa: S311 - reproducible, not secret
    keys = list(dict.fromkeys(["ab" * (longest // 2), *("a" * n for n in range(1, longest)), *some_keys(pick, 50, 3)]))
    text = "".join(
        pick.choice(["ab" * longest, "a" * longest, "".join(pick.choices(_LETTERS, k=7))]) for _ in range(60)
    )
    text = (text * (1 + length // len(text)))[:length]
    finds = list(Automaton.of(keys, RS).find(text))
    assert len(finds) == len(set(finds))
    assert set(finds) == set(Automaton.of(keys, PY).find(text))


def test_more_keys_than_a_part_holds_are_numbered_in_their_order() -> None:
    """The first and the last of each part are found, and what is in none is not."""
    part = PART[RS]
    numbers = [0, part - 1, part, 2 * part - 1, 2 * part, 2 * part + 9]
    keys = [f"word{number:05}" for number in range(2 * part + 10)]
    text = " ".join(f"word{number:05}" for number in [*numbers, len(keys)])
    assert sorted(number for number, _, _ in Automaton.of(keys, RS).find(text)) == numbers


@pytest.mark.parametrize("library", SearchLibrary)
def test_without_keys_nothing_is_found(library: SearchLibrary) -> None:
    """A list with rules only has none."""
    assert list(Automaton.of([], library).find("text")) == []


def test_a_library_that_is_not_installed_is_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """When a runner starts, not with its first task."""
    require(RS)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    require(PY)
    with pytest.raises(ConfigurationError, match=r"detectsched\[bulk\]"):
        require(RS)
