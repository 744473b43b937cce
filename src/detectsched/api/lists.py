"""Word lists as callers send them and get them.

A list may have a hundred thousand words. Whatever is done with all of them is done in a thread, and in pieces of some
milliseconds: one call of a C extension holds the GIL, and with it the event loop, until it is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, TypeVar

import msgspec
from pydantic import ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from detectsched.api.bodies import RequestModel, parse_json
from detectsched.api.fields import WHOLE, never
from detectsched.api.problems import FieldError, InvalidFields, refusal_of
from detectsched.api.schemas import ResponseModel, WordListSummary
from detectsched.errors import InvalidRequest
from detectsched.matching.normalise import normalise_all
from detectsched.matching.rules.compiled import CompiledRule
from detectsched.wordlist import (
    MOST_GAP,
    MOST_PATTERN_CHARACTERS,
    MOST_RULES,
    AllowRule,
    ListContent,
    ListOptions,
    Mode,
    Noise,
    Repeats,
    Rule,
    RuleKind,
    Word,
)

MOST_WORDS: Final = 100_000
_PIECE: Final = 2_000
"""Words that are checked at once."""
_MOST_TOLD: Final = 20
"""Wrong words named in one answer."""

_Category = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]{1,64}$")]
_Level = Annotated[int, Field(ge=1, le=100), WHOLE]
_Tag = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]{1,64}$")]
_Tags = Annotated[tuple[_Tag, ...], Field(max_length=20)]


class WordEntry(RequestModel):
    """A word to be found."""

    text: Annotated[str, StringConstraints(max_length=200, pattern=r"^[^\x00]+$")]
    """The word, or a phrase; width, case and the like are folded when it is matched."""
    category: _Category = "default"
    """What kind of word it is."""
    level: _Level = 1
    """How grave it is; a task's result shows the highest."""
    mode: Mode | None = None
    """Where it is found; without it as the list's options say."""
    allow: bool = False
    """It is not reported; instead it takes hits of this list away, as the list's options say."""
    tags: _Tags = ()
    """Shown with its hits."""
    replacement: Annotated[str, StringConstraints(max_length=200, pattern=r"^[^\x00]*$")] | None = None
    """What to show in its place; without it asterisks."""


class RuleEntry(RequestModel):
    """Something other than a word to be found."""

    model_config = ConfigDict(
        json_schema_extra=never(
            {"properties": {"kind": {"const": "regex"}, "pattern": {"maxLength": 0}}, "required": ["kind"]}
        )
    )

    kind: RuleKind
    """What it finds."""
    name: Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]{0,64}$")] = ""
    """What hits show as the word; without it the kind."""
    category: _Category = "default"
    """What kind of finding it is."""
    level: _Level = 1
    """How grave it is."""
    tags: _Tags = ()
    """Shown with its hits."""
    pattern: Annotated[str, StringConstraints(max_length=MOST_PATTERN_CHARACTERS, pattern=r"^[^\x00]*$")] = ""
    """For `regex`: the expression, in RE2's syntax, matched against the text as it is."""
    min_digits: Annotated[int, Field(ge=4, le=100), WHOLE] = 8
    """For `digits`: how many in a row."""
    skip_dates: bool = False
    """For `digits`: leave out eight digits that are a date, as in 20100506."""


class Options(RequestModel):
    """How a list is matched."""

    mode: Mode = Mode.WORD
    """`word`: what begins or ends with a letter or digit of a script with spaces is found only as a whole word."""
    repeats: Repeats = Repeats.STRETCHED
    """Which repeated characters count as one: those three or more times in a row (`stretched`), `any`, or none."""
    noise: Annotated[tuple[Noise, ...], Field(max_length=len(Noise))] = (Noise.SPACES, Noise.SYMBOLS)
    """What may stand between the characters of a word."""
    max_gap: Annotated[int, Field(ge=0, le=MOST_GAP), WHOLE] = 4
    """How much of it, between two characters; 0: none."""
    across_lines: bool = False
    """Whether line breaks that somebody typed are such noise."""
    homoglyphs: bool = True
    """Take Cyrillic, Greek and other letters for the Latin ones that they look like."""
    numerals: bool = False
    """Take Chinese numerals for digits."""
    confusions: bool = False
    """Take for one what OCR confuses: 0 and O; 1, l and I."""
    pinyin: bool = False
    """Find Chinese words in pinyin as well."""
    split: bool = False
    """Find Chinese characters split into their parts as well."""
    allow: AllowRule = AllowRule.INSIDE
    """Which hits allowed words take away: those `inside` them, or all that they `overlap`."""
    rules: Annotated[tuple[RuleEntry, ...], Field(max_length=MOST_RULES)] = ()
    """What is found beside words."""
    shadow: bool = False
    """Shadow mode: the list is matched and its hits are kept, apart from all others, but nothing follows from them."""

    def checked(self) -> ListOptions:
        """Return the options, if their rules can be run.

        Raises:
            InvalidRequest: a rule cannot.
        """
        rules = tuple(_rule(entry, place) for place, entry in enumerate(self.rules))
        return ListOptions(**(dict(self) | {"rules": rules}))


Name = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]{1,200}$")]


class WholeWordList(RequestModel):
    """A word list with all that belongs to it."""

    name: Name
    """What people call it."""
    is_default: bool = True
    """Whether it judges tasks that name no lists."""
    options: Options = Options()
    """How it is matched."""
    words: Annotated[list[WordEntry], Field(max_length=MOST_WORDS)]
    """All of its words; a word that stands in it twice counts once."""


class PublishWordList(WholeWordList):
    """The new state of a word list."""

    expected_version: Annotated[int, Field(ge=0, le=2**31 - 1), WHOLE] | None = None
    """The version that is to be replaced, 0 for none; if another is current, nothing is published."""


class ListedRule(ResponseModel):
    """A rule of a list."""

    kind: RuleKind
    name: str
    category: str
    level: int
    tags: list[str]
    pattern: str
    min_digits: int
    skip_dates: bool


class ListedOptions(ResponseModel):
    """How a list is matched."""

    mode: Mode
    repeats: Repeats
    noise: list[Noise]
    max_gap: int
    across_lines: bool
    homoglyphs: bool
    numerals: bool
    confusions: bool
    pinyin: bool
    split: bool
    allow: AllowRule
    rules: list[ListedRule]
    shadow: bool


class ListedWord(ResponseModel):
    """A word of a list."""

    text: str
    category: str
    level: int
    mode: Mode | None
    allow: bool
    tags: list[str]
    replacement: str | None


class WordListDetail(WordListSummary):
    """A word list with its words."""

    options: ListedOptions
    words: list[ListedWord]


Sent = TypeVar("Sent", bound=WholeWordList)

_PIECES: Final = TypeAdapter(list[WordEntry])


def parse(data: bytes, model: type[Sent]) -> tuple[Sent, ListContent]:
    """Return a list that was sent: the document without its words, and what it is to hold. Takes a thread.

    Raises:
        MalformedRequest: not JSON.
        InvalidRequest: JSON, but not of that form; a word holds nothing that could be seen; a rule cannot be run.
    """
    try:
        document = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        raws = msgspec.json.decode(document["words"], type=list[msgspec.Raw])
    except (msgspec.DecodeError, KeyError):
        raws = []
        document = None
    if document is None or len(raws) > MOST_WORDS:
        # Wrong, most likely: let the model say how.
        wanted = parse_json(data, model)
        words = [word_of(entry) for entry in wanted.words]
    else:
        wanted = parse_json(msgspec.json.encode(document | {"words": []}), model)
        words = [word for first in range(0, len(raws), _PIECE) for word in _piece(raws, first)]
    return wanted, ListContent(seen_once(words), wanted.options.checked())


def shown(summary: ResponseModel, content: ListContent) -> bytes:
    """Return a summary with the options and the words that it speaks of, as JSON. Takes a thread."""
    head = summary.model_dump(mode="json")
    return msgspec.json.encode({**head, "options": content.options, "words": content.words})


class _Plain(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A `WordEntry` that is right beyond doubt, in a form of which a hundred thousand wake no garbage collector."""

    text: Annotated[str, msgspec.Meta(max_length=200, pattern=r"\A[^\x00]+\Z")]
    category: Annotated[str, msgspec.Meta(pattern=r"\A[^\x00-\x1f\x7f]{1,64}\Z")] = "default"
    level: Annotated[int, msgspec.Meta(ge=1, le=100)] = 1
    mode: Mode | None = None
    allow: bool = False
    tags: Annotated[
        tuple[Annotated[str, msgspec.Meta(pattern=r"\A[^\x00-\x1f\x7f]{1,64}\Z")], ...], msgspec.Meta(max_length=20)
    ] = ()
    replacement: Annotated[str, msgspec.Meta(max_length=200, pattern=r"\A[^\x00]*\Z")] | None = None


_PLAIN: Final = msgspec.json.Decoder(list[_Plain])


def _piece(raws: Sequence[msgspec.Raw], first: int) -> list[Word]:
    data = b"[" + b",".join(map(bytes, raws[first : first + _PIECE])) + b"]"
    try:
        plain = _PLAIN.decode(data)
    except msgspec.DecodeError:
        return _checked_piece(data, first)
    return [Word(one.text, one.category, one.level, one.mode, one.allow, one.tags, one.replacement) for one in plain]


def _checked_piece(data: bytes, first: int) -> list[Word]:
    """Return the words of a piece in which something is wrong, or right in an unusual way: a level of 2.0."""
    try:
        entries = _PIECES.validate_json(data)
    except ValidationError as error:

        def located(path: tuple[int | str, ...]) -> tuple[int | str, ...]:
            place, *rest = path or (0,)
            return ("words", first + int(place), *rest)

        raise refusal_of(error, located=located) from None
    return list(map(word_of, entries))


def word_of(entry: WordEntry) -> Word:
    """Return the word that an entry asks for."""
    return Word(entry.text, entry.category, entry.level, entry.mode, entry.allow, entry.tags, entry.replacement)


def _rule(entry: RuleEntry, place: int) -> Rule:
    rule = Rule(**dict(entry))
    try:
        CompiledRule(rule)
    except InvalidRequest as error:
        raise InvalidRequest(error.detail, field=f"options.rules.{place}.{error.field}") from error
    return rule


def seen_once(words: Sequence[Word], *, field: str = "words") -> tuple[Word, ...]:
    """Return the words, each once; ``field`` is where they stand in the document.

    Raises:
        InvalidFields: some hold nothing that the matcher could see.
    """
    folded = normalise_all([word.text for word in words])
    unseen = [place for place, content in enumerate(folded) if not content.strip()]
    if unseen:
        raise InvalidFields(
            [
                FieldError(
                    field=f"{field}.{place}.text",
                    detail=f"{words[place].text!r} holds nothing that can be seen: take it out",
                )
                for place in unseen[:_MOST_TOLD]
            ]
        )
    first: dict[tuple[str, bool], Word] = {}
    for word in words:
        first.setdefault((word.text, word.allow), word)
    return tuple(first.values())
