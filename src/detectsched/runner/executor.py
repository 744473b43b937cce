"""Examines one task: read it, match it. Knows neither Redis nor SQL."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from detectsched import failpoints
from detectsched.attempt import Started
from detectsched.detection import Detection, EngineResult, ListVersion, Text
from detectsched.errors import EngineFailed, PayloadRejected
from detectsched.matching.judge import Judge

_LONG: Final = 5_000
"""Characters from which on a text is searched in a thread: that takes milliseconds, which the event loop has not."""


class Engines(Protocol):
    """Makes text of payloads; an `EngineRack`."""

    async def read(self, engine: str, data: bytes) -> EngineResult:
        """Return what the named engine makes of a payload.

        Raises:
            PayloadRejected: it can never be read.
            EngineFailed: it could not be read this time.
        """
        ...


class Blobs(Protocol):
    """Fetches payloads."""

    async def get(self, key: str) -> bytes:
        """Return a blob."""
        ...


class Matchers(Protocol):
    """Provides compiled word lists."""

    async def matcher(self, tenant: str, lists: tuple[ListVersion, ...]) -> Judge:
        """Return the matcher of these versions."""
        ...


class Images(Protocol):
    """Knows payloads by their content; `KnownImages`."""

    async def recall(self, started: Started) -> EngineResult | None:
        """Return what the task's engine read in the same payload before, if that is known.

        Raises:
            PoisonImage: it has crashed engines before.
        """
        ...

    def learn(self, result: EngineResult) -> None:
        """Take note of what an engine has read just now."""
        ...

    async def failed(self, started: Started, error: EngineFailed) -> None:
        """Take note of a failure.

        Raises:
            PoisonImage: the payload has crashed engines before.
        """
        ...


class Executor:
    """``engines`` is None in a runner that serves no lane with payloads, and so is ``images``."""

    def __init__(self, engines: Engines | None, blobs: Blobs, matchers: Matchers, images: Images | None = None) -> None:
        self._engines = engines
        self._blobs = blobs
        self._matchers = matchers
        self._images = images

    async def examine(self, started: Started, keep: Callable[[EngineResult], Awaitable[None]]) -> Detection:
        """Return the judgement on a task.

        ``keep`` is given what an engine read, as soon as it is there, so that a later try need not read it again.

        Raises:
            PayloadRejected: the task can never be examined.
            EngineFailed: it could not be examined this time.
            TaskFailed: a rule of a list could not be run.
        """
        text = await self._text_of(started, keep)
        matcher = await self._matchers.matcher(started.tenant, started.lists)
        return matcher.match(text) if len(text.content) < _LONG else await asyncio.to_thread(matcher.match, text)

    async def _text_of(self, started: Started, keep: Callable[[EngineResult], Awaitable[None]]) -> Text:
        if started.broken is not None:
            raise started.broken
        if started.engine is None:
            return Text(started.text or "")
        result = started.read
        if result is None:
            result = await self._recall(started) or await self._read(started, started.engine)
            await keep(result)
        return result.joined()

    async def _recall(self, started: Started) -> EngineResult | None:
        return None if self._images is None else await self._images.recall(started)

    async def _read(self, started: Started, engine: str) -> EngineResult:
        if self._engines is None:
            raise PayloadRejected("no_engine", "the runners of this lane have no engines; submit to the ocr lane")
        data = await self._blobs.get(started.blob or "")
        if started.seal is not None:
            data = await asyncio.to_thread(started.seal.open_blob, started.blob or "", data)
        if started.blob_sha256 is not None and hashlib.sha256(data).digest() != started.blob_sha256:
            raise PayloadRejected("blob_damaged", "the stored payload is not the one that was submitted")
        failpoints.hit("run.before_read")
        try:
            result = await self._engines.read(engine, data)
        except EngineFailed as error:
            if self._images is not None:
                await self._images.failed(started, error)
            raise
        failpoints.hit("run.after_read")
        if self._images is not None:
            self._images.learn(result)
        return result
