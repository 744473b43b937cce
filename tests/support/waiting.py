"""Waiting for a condition instead of for a time."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TypeVar

from detectsched.clock import monotonic

T = TypeVar("T")


async def wait_until(
    condition: Callable[[], T | Awaitable[T]],
    describe: str | Callable[[], str],
    timeout: float = 10.0,  # noqa: ASYNC109 - it shall fail with a description
) -> T:
    """Ask ``condition`` until its answer is true, and return that answer.

    Args:
        condition: asked every few milliseconds; plain or asynchronous.
        describe: what is waited for, as it shall stand in the failure; a function may tell how far it got.
        timeout: in seconds.

    Raises:
        AssertionError: it did not come true in time.
    """
    deadline = monotonic() + timeout
    pause = 0.002
    while True:
        answer = condition()
        value: T = await answer if inspect.isawaitable(answer) else answer
        if value:
            return value
        if monotonic() > deadline:
            what = describe if isinstance(describe, str) else describe()
            raise AssertionError(f"not within {timeout:g} s: {what} (last answer: {value!r})")
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, 0.05)
