"""Examines one task: read it, match it. Knows neither Redis nor SQL."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from typing import Protocol

from detectsched.attempt import Started
from detectsched.detection import Detection, EngineResult, ListVersion, Text
from detectsched.errors import PayloadRejected
from detectsched.matching.matcher import Matcher
from detectsched.task import TaskKind


class Reader(Protocol):
    """Reads images; an engine pool."""

    async def read(self, data: bytes) -> EngineResult:
        """Return what stands in an image.

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

    async def matcher(self, tenant: str, lists: tuple[ListVersion, ...]) -> Matcher:
        """Return the matcher of these versions."""
        ...


class Executor:
    """``reader`` is None in a runner that serves no lane with images."""

    def __init__(self, reader: Reader | None, blobs: Blobs, matchers: Matchers) -> None:
        self._reader = reader
        self._blobs = blobs
        self._matchers = matchers

    async def examine(self, started: Started, keep: Callable[[EngineResult], Awaitable[None]]) -> Detection:
        """Return the judgement on a task.

        ``keep`` is given what an engine read, as soon as it is there, so that a later try need not read it again.

        Raises:
            PayloadRejected: the task can never be examined.
            EngineFailed: it could not be examined this time.
        """
        text = await self._text_of(started, keep)
        matcher = await self._matchers.matcher(started.tenant, started.lists)
        return Detection(matcher.match(text), started.lists)

    async def _text_of(self, started: Started, keep: Callable[[EngineResult], Awaitable[None]]) -> Text:
        if started.kind is TaskKind.TEXT:
            return Text(started.text or "")
        result = started.read
        if result is None:
            if self._reader is None:
                raise PayloadRejected("no_engine", "this runner has no engine for images; submit them to the ocr lane")
            data = await self._blobs.get(started.blob or "")
            if started.blob_sha256 is not None and hashlib.sha256(data).digest() != started.blob_sha256:
                raise PayloadRejected("blob_damaged", "the stored image is not the one that was submitted")
            result = await self._reader.read(data)
            await keep(result)
        return result.joined()
