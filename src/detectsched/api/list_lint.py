"""What is likely a mistake in a word list: words that are found everywhere, or twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from detectsched.matching.normalise import normalise_all
from detectsched.wordlist import Word

_PIECE: Final = 2_000
"""Words folded in one call, which holds the GIL for some milliseconds."""

_CHINESE: Final = (
    "的 了 是 在 我 你 他 她 它 们 和 与 或 不 也 都 就 这 那 有 没 很 会 要 说 去 来 到 把 被 让 给 为 对 从 向 吗 呢 "
    "我们 你们 他们 她们 自己 大家 这个 那个 这些 那些 这里 那里 什么 怎么 为什么 哪里 哪个 谁 多少 几个 然后 因为 "
    "所以 但是 可是 如果 虽然 而且 或者 还是 还有 已经 可以 没有 不是 就是 不会 不能 应该 可能 需要 知道 觉得 现在 "
    "今天 明天 昨天 时候 一个 一些 一下 一样 东西 事情 谢谢 你好"
)
_ENGLISH: Final = (
    "a an the and or but if so as of at by for from in into on onto to with without about over under out up down off "
    "is are was were be been am do does did have has had can could will would shall should may might must not no yes "
    "i you he she it we they me him her us them my your his its our their this that these those here there what which "
    "who when where why how all any some more most other such only own same than too very just now then also one two"
)
STOP_WORDS: Final = frozenset(f"{_CHINESE} {_ENGLISH}".split())
"""Words without a meaning of their own, as texts are full of: Chinese and English ones."""


def folded(words: Sequence[Word]) -> list[str]:
    """Return what the matcher seeks in place of each word. Takes a thread."""
    return [
        text.strip()
        for first in range(0, len(words), _PIECE)
        for text in normalise_all([word.text for word in words[first : first + _PIECE]])
    ]


def warnings_of(words: Sequence[Word], seen: Sequence[str]) -> list[tuple[int, str]]:
    """Return the places of words that are likely mistakes, with why; ``seen`` is what `folded` makes of them."""
    found: list[tuple[int, str]] = []
    first: dict[tuple[str, bool], int] = {}
    for place, (word, text) in enumerate(zip(words, seen, strict=True)):
        same = first.setdefault((text, word.allow), place)
        if same != place and words[same].text != word.text:
            found.append((place, f"to the matcher {word.text!r} is the same as {words[same].text!r}: both are told"))
        if word.allow:
            continue
        if text in STOP_WORDS:
            found.append((place, f"{word.text!r} is in almost every text: everything will be a hit"))
        elif len(text) == 1:
            found.append((place, f"{word.text!r} is one character: it will be found inside other words"))
    return found
