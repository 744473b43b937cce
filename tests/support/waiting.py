# ruff: noqa: ASYNC109 - a time-out here fails with a description, which asyncio.timeout cannot
"""Waiting for a condition instead of for a time."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

from detectsched.clock import monotonic

T = TypeVar("T")


@overload
async def wait_until(
    condition: Callable[[], Awaitable[T]], describe: str | Callable[[], str], timeout: float = ...
) -> T: ...


@overload
async def wait_until(condition: Callable[[], T], describe: str | Callable[[], str], timeout: float = ...) -> T: ...


async def wait_until(
    condition: Callable[[], Any],
    describe: str | Callable[[], str],
    timeout: float = 10.0,
) -> Any:
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
        value = await answer if inspect.isawaitable(answer) else answer
        if value:
            return value
        if monotonic() > deadline:
            what = describe if isinstance(describe, str) else describe()
            raise AssertionError(f"not within {timeout:g} s: {what} (last answer: {value!r})")
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, 0.05)
