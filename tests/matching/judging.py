"""Short ways to say which words are sought in which text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from detectsched.detection import Hit, ListVersion, Text
from detectsched.matching.matcher import Matcher
from detectsched.wordlist import ListContent, ListOptions, Rule, RuleKind, Word

LIST = ListVersion("main", 3)
OTHER = ListVersion("other", 1)


def matcher(*words: str | Word, max_hits: int = 1000, **options: Any) -> Matcher:
    """Return a matcher of one list with these options."""
    entries = tuple(Word(word) if isinstance(word, str) else word for word in words)
    return Matcher({LIST: ListContent(entries, ListOptions(**options))}, max_hits=max_hits)


def hits(words: Sequence[str | Word], text: str, **options: Any) -> tuple[Hit, ...]:
    """Return what is found."""
    return matcher(*words, **options).match(Text(text)).hits


def found(words: Sequence[str | Word], text: str, **options: Any) -> list[tuple[str, str]]:
    """Return (word, what stands there) of each hit."""
    return [(hit.word, hit.matched) for hit in hits(words, text, **options)]


def by_rule(rule: Rule | RuleKind, text: str) -> list[str]:
    """Return what a rule finds."""
    of_kind = Rule(rule) if isinstance(rule, RuleKind) else rule
    return [hit.matched for hit in hits([], text, rules=(of_kind,))]
