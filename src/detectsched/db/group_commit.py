"""Coalesces the writes of concurrent callers: whatever arrives while one write is under way goes into the next.

One caller alone waits for nobody; fifty callers share one statement and one flush of the log.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from detectsched.errors import DetectschedError

Item = TypeVar("Item")
Result = TypeVar("Result")


class GroupCommit(Generic[Item, Result]):
    """``write`` takes a batch and returns one result per item, in order."""

    def __init__(self, write: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]], *, max_items: int) -> None:
        self._write = write
        self._max_items = max_items
        self._waiting: deque[tuple[Item, asyncio.Future[Result]]] = deque()
        self._flusher: asyncio.Task[None] | None = None

    async def submit(self, item: Item) -> Result:
        """Write one item with whoever else is writing now, and return its result.

        A caller that is cancelled leaves: its item may be written all the same.

        Raises:
            DetectschedError: what the write raised for the batch, or for this item when the batch was split.
        """
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._flusher is None or self._flusher.done():
            self._flusher = asyncio.create_task(self._flush(), name="group-commit")
        return await future

    async def drain(self) -> None:
        """Wait until what was submitted has been written, also for callers that are gone."""
        while (flusher := self._flusher) is not None and not flusher.done():
            await asyncio.wait([flusher])

    async def _flush(self) -> None:
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(self._max_items, len(self._waiting)))]
            await self._write_batch(batch)

    async def _write_batch(self, batch: Sequence[tuple[Item, asyncio.Future[Result]]]) -> None:
        try:
            results = await self._write([item for item, _ in batch])
        except asyncio.CancelledError:
            for _, future in batch:
                future.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - every waiter is told; nothing is swallowed
            if len(batch) > 1 and not isinstance(error, DetectschedError):
                # One bad row must not fail its neighbours: each is tried alone, and only the bad one is told.
                for pair in batch:
                    await self._write_batch([pair])
                return
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), result in zip(batch, results, strict=True):
            if not future.done():
                future.set_result(result)
