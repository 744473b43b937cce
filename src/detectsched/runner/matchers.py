"""Compiled word lists, by version: a new version is another key, so that nothing ever has to be invalidated."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Final

from detectsched.db.connection import Ledger
from detectsched.db.word_lists import load
from detectsched.detection import ListVersion
from detectsched.matching.matcher import Matcher

_KEPT: Final = 32
_Key = tuple[str, tuple[ListVersion, ...]]


class CompiledLists:
    """Keeps the most recently used matchers; compiling happens in a thread, away from the loop."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._kept: OrderedDict[_Key, asyncio.Task[Matcher]] = OrderedDict()

    async def matcher(self, tenant: str, lists: tuple[ListVersion, ...]) -> Matcher:
        """Return the matcher of these versions, compiling it once however many ask."""
        key = tenant, lists
        task = self._kept.get(key)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = self._kept[key] = asyncio.create_task(self._compile(tenant, lists))
        self._kept.move_to_end(key)
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        # One asker that is cancelled must not take the compilation from the others.
        return await asyncio.shield(task)

    async def _compile(self, tenant: str, lists: tuple[ListVersion, ...]) -> Matcher:
        words = {version: await load(self._ledger, tenant, version) for version in lists}
        if sum(map(len, words.values())) < 2000:
            return Matcher(words)
        return await asyncio.to_thread(Matcher, words)
