"""Judging a text by word lists, and beside it by those on trial, which must not change the judgement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from detectsched.detection import Detection, ListVersion, Text
from detectsched.errors import TaskFailed
from detectsched.matching.matcher import Matcher
from detectsched.telemetry import get_logger
from detectsched.wordlist import ListContent

log = get_logger(__name__)


class Judge:
    """Compiled word lists: those in force, and apart from them those in shadow mode (None: there are none).

    Lists in shadow mode are searched by themselves: a word of theirs that stands everywhere takes no room from the hits
    of others, and a rule of theirs that fails does not fail the task. That costs tasks a second search while such
    lists are tried, and nothing otherwise.
    """

    __slots__ = ("_acting", "_shadow", "lists")

    lists: tuple[ListVersion, ...]
    """The versions that judge, those in shadow mode included."""

    def __init__(self, acting: Matcher, shadow: Matcher | None = None) -> None:
        self._acting = acting
        self._shadow = shadow
        self.lists = tuple(sorted((*acting.lists, *(shadow.lists if shadow else ())), key=_id_of))

    @property
    def word_count(self) -> int:
        """How many words it holds."""
        return self._acting.word_count + (self._shadow.word_count if self._shadow else 0)

    def match(self, text: Text) -> Detection:
        """Return the hits, as `Matcher.match` finds them, and apart those of lists in shadow mode.

        Raises:
            TaskFailed: a regular expression of a list in force could not be run.
        """
        judged = self._acting.match(text)
        if self._shadow is None:
            return judged
        try:
            shadow = self._shadow.match(text).hits
        except TaskFailed as error:
            log.warning("a list in shadow mode could not be tried", reason=error.reason, detail=error.detail)
            shadow = ()
        return replace(judged, lists=self.lists, shadow=shadow)


def apart_by_mode(
    lists: Mapping[ListVersion, ListContent],
) -> tuple[dict[ListVersion, ListContent], dict[ListVersion, ListContent]]:
    """Return the lists in force, and those in shadow mode."""
    shadow = {version: content for version, content in lists.items() if content.options.shadow}
    return {version: content for version, content in lists.items() if version not in shadow}, shadow


def judge_of(lists: Mapping[ListVersion, ListContent]) -> Judge:
    """Compile lists, however long that takes, and return their judge.

    Raises:
        InvalidRequest: a word holds nothing that can be seen, or a rule is wrong.
    """
    acting, shadow = apart_by_mode(lists)
    return Judge(Matcher(acting), Matcher(shadow) if shadow else None)


def _id_of(version: ListVersion) -> tuple[str, int]:
    return version.list_id, version.version
