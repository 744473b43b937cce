"""Compiled word lists, by version: a new version is another key, so that nothing ever has to be invalidated."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Final

from detectsched.db.connection import Ledger
from detectsched.db.word_lists import load
from detectsched.detection import ListVersion
from detectsched.matching.apart import compile_apart
from detectsched.matching.automaton import require
from detectsched.matching.judge import Judge, apart_by_mode
from detectsched.matching.matcher import MAX_HITS, Matcher
from detectsched.matching.patterns import compile_lists
from detectsched.wordlist import ListContent, SearchLibrary

_KEPT: Final = 32
_KEPT_WORDS: Final = 500_000
"""About 0.4 kB each."""
_MOST_DESCRIBED: Final = 50
_FEW: Final = 1_000
"""Words that are compiled on the spot: in some milliseconds, where a process takes half a second to start."""
_Key = tuple[str, tuple[ListVersion, ...]]


class CompiledLists:
    """Keeps the most recently used matchers. While one is being compiled, those who need it wait, and nobody else."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        max_hits: int = MAX_HITS,
        kept_words: int = _KEPT_WORDS,
        library: SearchLibrary = SearchLibrary.PYAHOCORASICK,
    ) -> None:
        require(library)
        self._library = library
        self._ledger = ledger
        self._max_hits = max_hits
        self._kept_words = kept_words
        self._kept: OrderedDict[_Key, asyncio.Task[Judge]] = OrderedDict()

    async def matcher(self, tenant: str, lists: tuple[ListVersion, ...]) -> Judge:
        """Return the matcher of these versions, compiling it once however many ask."""
        key = tenant, lists
        task = self._kept.get(key)
        if task is None or _failed(task):
            task = self._kept[key] = asyncio.create_task(self._compile(tenant, lists))
        self._kept.move_to_end(key)
        # One asker that is cancelled must not take the compilation from the others.
        matcher = await asyncio.shield(task)
        self._drop_oldest()
        return matcher

    def versions(self) -> list[tuple[str, ListVersion]]:
        """Return the tenants and list versions that are compiled, the least recently used first."""
        ready = (key for key, task in self._kept.items() if task.done() and not _failed(task))
        return list(dict.fromkeys((tenant, version) for tenant, lists in ready for version in lists))

    def described(self) -> str:
        """Return the versions last used, for the registry: ``tenant/list@version`` with spaces between."""
        newest = self.versions()[: -_MOST_DESCRIBED - 1 : -1]
        return " ".join(f"{tenant}/{version.list_id}@{version.version}" for tenant, version in newest)

    def _drop_oldest(self) -> None:
        words = sum(task.result().word_count for task in self._kept.values() if task.done() and not _failed(task))
        while len(self._kept) > 1 and (len(self._kept) > _KEPT or words > self._kept_words):
            _, oldest = self._kept.popitem(last=False)
            words -= oldest.result().word_count if oldest.done() and not _failed(oldest) else 0

    async def _compile(self, tenant: str, lists: tuple[ListVersion, ...]) -> Judge:
        contents = {version: await load(self._ledger, tenant, version) for version in lists}
        acting, shadow = apart_by_mode(contents)
        return Judge(await self._matcher(acting), await self._matcher(shadow) if shadow else None)

    async def _matcher(self, contents: dict[ListVersion, ListContent]) -> Matcher:
        if sum(len(content.words) for content in contents.values()) <= _FEW:
            groups = compile_lists(list(contents.values()), self._library)
        else:
            groups = await compile_apart(list(contents.values()), self._library)
        return Matcher(contents, groups, max_hits=self._max_hits)


def _failed(task: asyncio.Task[Judge]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
