"""Finding the words of word lists in a text, with exact places."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from detectsched.detection import Detection, Hit, ListVersion, Text
from detectsched.matching.patterns import Group, compile_lists
from detectsched.matching.relaxed import Relaxed
from detectsched.matching.rules.compiled import CompiledRule
from detectsched.matching.scripts import inside_word
from detectsched.matching.spans import Spans
from detectsched.matching.views import Views
from detectsched.wordlist import AllowRule, ListContent, Rule, Word

MAX_HITS: Final = 1000
"""Hits that are kept of one text, unless told otherwise."""
_MOST_FOUND: Final = 50
"""Finds, for each hit that is kept, after which a text is not searched further."""
_MOST_LOOKED_AT: Final = 20
"""Candidates, for each find, of which most are none because a boundary or a gap is wrong."""

_Place = tuple[int, int, int]
"""Start and end in a folded text, and the number of the word that stands there."""


class Found(NamedTuple):
    """A place, in the original, and which entry of which list stands there; words come before rules."""

    start: int
    end: int
    list_number: int
    entry: int
    is_rule: bool = False


class Matcher:
    """The compiled form of some published word lists; it never changes, so threads may share it.

    Text and words are folded alike (``folding``). The text is read twice: as it stands, and past its noise
    (``relaxed``); a word found in the first is not told once more from the second. Compiling is linear in the words: a
    hundred thousand take about a second, most of it with the GIL held, which is why `apart` does it in a process of
    its own.
    """

    __slots__ = ("_allowed", "_contents", "_first", "_groups", "_max_hits", "_rules", "_words", "lists")

    lists: tuple[ListVersion, ...]
    """The versions that judge, for ``Detection.lists``."""

    def __init__(
        self,
        lists: Mapping[ListVersion, ListContent],
        groups: tuple[Group, ...] | None = None,
        *,
        max_hits: int = MAX_HITS,
    ) -> None:
        """Take ``lists`` with the groups that `compile_lists` made of them; without, they are compiled here.

        Raises:
            InvalidRequest: a word holds nothing that can be seen, or a rule is wrong.

        """
        self.lists = tuple(lists)
        self._contents = tuple(lists.values())
        self._words: list[Word] = [word for content in self._contents for word in content.words]
        self._first = [0, *accumulate(len(content.words) for content in self._contents)]
        self._groups = compile_lists(self._contents) if groups is None else groups
        self._rules = [[CompiledRule(rule) for rule in content.options.rules] for content in self._contents]
        self._allowed = [any(word.allow for word in content.words) for content in self._contents]
        self._max_hits = max_hits

    @property
    def word_count(self) -> int:
        """How many words it holds."""
        return len(self._words)

    def match(self, text: Text) -> Detection:
        """Return every hit, overlapping ones included, ordered by place, then by list and word as they were given.

        One word of one list is reported once per place. The box of a hit is that of the line, or lines, it stands in.

        Raises:
            TaskFailed: a regular expression could not be run; the text is not passed as clean.

        """
        search = _Search(Views(text), self._max_hits)
        for group in self._groups:
            search.words(group, self._first)
        for number, rules in enumerate(self._rules):
            search.rules(number, rules)
        found = self._without_allowed(search.found)
        cut = search.cut or len(found) > self._max_hits
        if cut:
            # The gravest are kept, so that the level of the whole is right.
            found = sorted(found, key=lambda one: (-self._entry(one).level, one))[: self._max_hits]
        return Detection(tuple(self._hit(text, one) for one in sorted(found, key=_place)), self.lists, cut)

    def _without_allowed(self, found: Sequence[Found]) -> list[Found]:
        """Return what is no allowed word, and not taken away by one of its list."""
        kept: list[Found] = []
        for number, content in enumerate(self._contents):
            of_list = [one for one in found if one.list_number == number]
            if self._allowed[number]:
                allowed = Spans((one.start, one.end) for one in of_list if self._is_allowed(one))
                takes = allowed.hold if content.options.allow is AllowRule.INSIDE else allowed.touch
                of_list = [one for one in of_list if not self._is_allowed(one) and not takes(one.start, one.end)]
            kept += of_list
        return kept

    def _is_allowed(self, one: Found) -> bool:
        return not one.is_rule and self._words[one.entry].allow

    def _entry(self, one: Found) -> Word | Rule:
        return self._rules[one.list_number][one.entry].rule if one.is_rule else self._words[one.entry]

    def _hit(self, text: Text, one: Found) -> Hit:
        entry = self._entry(one)
        return Hit(
            word=entry.title if isinstance(entry, Rule) else entry.text,
            category=entry.category,
            level=entry.level,
            start=one.start,
            end=one.end,
            matched=text.content[one.start : one.end],
            list=self.lists[one.list_number],
            box=text.box_of(one.start, one.end),
            rule=entry.kind.value if isinstance(entry, Rule) else None,
            tags=entry.tags,
            replacement=None if isinstance(entry, Rule) else entry.replacement,
        )


def _place(one: Found) -> tuple[int, int, int, bool, int]:
    return one.start, one.end, one.list_number, one.is_rule, one.entry


class _Search:
    """One search of one text, which ends early where there is more to be found than anybody reads."""

    def __init__(self, views: Views, max_hits: int) -> None:
        self._views = views
        self._room = max_hits * _MOST_FOUND
        self._patience = self._room * _MOST_LOOKED_AT
        self._found: set[Found] = set()
        self.cut = False

    @property
    def found(self) -> list[Found]:
        """What was found, each place once."""
        return list(self._found)

    def words(self, group: Group, first: Sequence[int]) -> None:
        """Look for the words of a group; ``first[i]`` is the number of the first word of list i."""
        strict = self._views.strict(group.folding)
        places = self._strict(group, strict.content)
        relaxed = self._views.relaxed(group.folding, group.leniency)
        if relaxed.telling or group.spaced:
            places |= self._relaxed(group, relaxed, places)
        self._found.update(
            Found(*strict.span(start, end), bisect_right(first, number) - 1, number) for start, end, number in places
        )

    def rules(self, list_number: int, rules: Sequence[CompiledRule]) -> None:
        """Look for what the rules of a list find."""
        for place, rule in enumerate(rules):
            for start, end in rule.find(self._views):
                if len(self._found) >= self._room:
                    self.cut = True
                    return
                self._found.add(Found(start, end, list_number, place, is_rule=True))

    def _strict(self, group: Group, content: str) -> set[_Place]:
        """Return where words stand in the folded text."""
        places: set[_Place] = set()
        for key, start, end in group.automaton.find(content):
            inside: bool | None = None
            for entry in group.strict(key):
                if entry.whole:
                    inside = inside_word(content, start, end) if inside is None else inside
                if not (entry.whole and inside):
                    places.add((start, end, entry.number))
            if self._exhausted(len(places)):
                break
        return places

    def _relaxed(self, group: Group, relaxed: Relaxed, strict: set[_Place]) -> set[_Place]:
        """Return the same of words that the relaxed reading holds where the strict one does not."""
        told: dict[int, list[tuple[int, int]]] = {}
        for start, end, number in strict:
            told.setdefault(number, []).append((start, end))
        spans: dict[int, Spans] = {}
        places: set[_Place] = set()
        for key, start, end in group.automaton.find(relaxed.content):
            for entry, spelling in group.relaxed(key, end - start):
                place = relaxed.place(end - 1, spelling, whole=entry.whole)
                if place is None:
                    continue
                if entry.number in told:
                    if entry.number not in spans:
                        spans[entry.number] = Spans(told[entry.number])
                    if spans[entry.number].touch(*place):
                        continue
                places.add((*place, entry.number))
            if self._exhausted(len(places)):
                break
        return places

    def _exhausted(self, more: int) -> bool:
        self._patience -= 1
        if self._patience < 0 or len(self._found) + more >= self._room:
            self.cut = True
        return self.cut
