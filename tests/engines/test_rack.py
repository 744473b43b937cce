"""Engines that plug in: found by name, started when they are needed, and kept at arm's length."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

import pytest

from detectsched.detection import Box, Line
from detectsched.engines.catalog import engine_names
from detectsched.engines.rack import EngineRack
from detectsched.errors import EngineFailed, PayloadRejected
from detectsched.ocr.pool import EnginePool
from detectsched.settings import OcrSettings

pytestmark = pytest.mark.usefixtures("plugins")


@pytest.fixture
async def rack() -> AsyncIterator[EngineRack]:
    """Give a rack whose OCR engine is never started."""
    make = partial(_pool, 1.0)
    rack = EngineRack(make(()), make)
    yield rack
    await rack.stop()


def _pool(timeout: float, command: object) -> EnginePool:
    assert isinstance(command, tuple)
    return EnginePool(OcrSettings(), slots=1, max_pixels=10**6, task_timeout_seconds=timeout, command=command)


def test_engines_are_found_by_name() -> None:
    """The built-in ones and those that were installed beside them; nothing is loaded for that."""
    names = engine_names()
    assert names[0] == "ocr"
    assert {"pdf", "echo", "broken"} <= set(names)


async def test_an_engine_may_return_a_string_or_a_reading(rack: EngineRack) -> None:
    """Lines are split; boxes are taken over; the result names the engine and its version."""
    result = await rack.read("echo", b"one\n\ntwo\n")
    assert (result.engine, result.version) == ("echo", "1")
    assert [line.text for line in result.lines] == ["one", "two"]
    result = await rack.read("echo", b"boxes")
    assert (result.lines, result.width, result.height) == ((Line("boxed", Box(1, 2, 3, 4), 0.5),), 10, 20)
    assert (await rack.read("echo", b"")).lines == ()


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"crash", "engine_crashed"),
        (b"hang", "engine_timeout"),
        (b"raise", "engine_error"),
        (b"number", "engine_error"),
        (b"nul", "engine_error"),
        (b"half", "engine_error"),
        (b"bytes", "engine_error"),
    ],
)
async def test_what_an_engine_does_wrong_costs_one_try(rack: EngineRack, payload: bytes, reason: str) -> None:
    """Its process is replaced, and the next payload is read."""
    with pytest.raises(EngineFailed) as caught:
        await rack.read("echo", payload)
    assert caught.value.reason == reason
    assert [line.text for line in (await rack.read("echo", b"next")).lines] == ["next"]


async def test_an_engine_may_reject_a_payload_for_good(rack: EngineRack) -> None:
    """That is no failure of the engine."""
    with pytest.raises(PayloadRejected) as caught:
        await rack.read("echo", b"reject")
    assert (caught.value.reason, caught.value.detail) == ("not_for_me", "this cannot be read")


@pytest.mark.parametrize(
    ("engine", "reason", "detail"),
    [
        ("absent", "unknown_engine", "not installed on this runner"),
        ("broken", "engine_unavailable", "does not load"),
        ("unversioned", "engine_unavailable", "is not a string"),
        ("picky", "engine_unavailable", "install the model first"),
    ],
)
async def test_an_engine_that_cannot_work_here(rack: EngineRack, engine: str, reason: str, detail: str) -> None:
    """Another runner may have it: the try fails, and says why."""
    with pytest.raises(EngineFailed) as caught:
        await rack.read(engine, b"x")
    assert caught.value.reason == reason
    assert detail in caught.value.detail
