"""A rule of a list, ready to be run over texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final

from detectsched.errors import InvalidRequest
from detectsched.matching.folding import PLAIN, Folding
from detectsched.matching.rules import cards, network, phones, plates, regex
from detectsched.matching.views import Views
from detectsched.wordlist import Rule, RuleKind

Finder = Callable[[str], Iterator[tuple[int, int]]]
"""Yields where something stands in a folded text."""

_NUMBERS: Final = Folding(numerals=True)
"""Numbers are hidden by writing them in Chinese numerals (一三八…)."""

_FINDERS: Final[Mapping[RuleKind, tuple[Folding, Finder]]] = {
    RuleKind.ID_CARD: (_NUMBERS, cards.id_cards),
    RuleKind.BANK_CARD: (_NUMBERS, cards.bank_cards),
    RuleKind.MOBILE: (_NUMBERS, phones.mobiles),
    RuleKind.LANDLINE: (_NUMBERS, phones.landlines),
    RuleKind.EMAIL: (PLAIN, network.emails),
    RuleKind.URL: (PLAIN, network.urls),
    RuleKind.IP: (PLAIN, network.ips),
    RuleKind.PLATE: (PLAIN, plates.plates),
}


class CompiledRule:
    """One rule."""

    __slots__ = ("_finder", "_folding", "_regex", "rule")

    def __init__(self, rule: Rule) -> None:
        """Compile a rule.

        Raises:
            InvalidRequest: it is a regular expression that cannot be run, or a number of digits that makes no sense.

        """
        self.rule = rule
        self._folding: Folding = _NUMBERS
        self._finder: Finder | None = None
        self._regex: regex.Regex | None = None
        match rule.kind:
            case RuleKind.REGEX:
                self._regex = regex.Regex(rule.pattern)
            case RuleKind.DIGITS:
                if not 4 <= rule.min_digits <= 100:
                    raise InvalidRequest("min_digits must be from 4 to 100", field="min_digits")
                self._finder = partial(cards.digits, at_least=rule.min_digits, skip_dates=rule.skip_dates)
            case kind:
                self._folding, self._finder = _FINDERS[kind]

    def find(self, views: Views) -> Iterator[tuple[int, int]]:
        """Yield what the rule finds as offsets in the original text, from left to right.

        Raises:
            TaskFailed: a regular expression could not be run.

        """
        if self._regex is not None:
            yield from self._regex.find(views.text.content)
        elif self._finder is not None:
            strict = views.strict(self._folding)
            yield from (strict.span(start, end) for start, end in self._finder(strict.content))
