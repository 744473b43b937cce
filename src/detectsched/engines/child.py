"""The process of an engine that plugs in: ``python -m detectsched.engines.child NAME``, started by `rack.EngineRack`.

It speaks the protocol of the OCR engine's process and is watched, killed and replaced like that.
"""

from __future__ import annotations

import sys
import time
from typing import Any, Final

import msgspec

from detectsched.detection import Box, Line
from detectsched.engines.catalog import plugins
from detectsched.engines.plugin import EngineContext, EngineFactory, EnginePlugin, Reading
from detectsched.errors import ConfigurationError, PayloadRejected
from detectsched.ocr.child import be_expendable, say, take_pipes
from detectsched.ocr.protocol import Answer, Broken, Done, Read, Ready, Rejected, Setup, Unfit, receive_request
from detectsched.settings import OcrSettings

_NOWHERE: Final = Box(0, 0, 0, 0)


def main(name: str) -> int:
    """Serve until the runner closes the pipe; the return value is the exit status."""
    be_expendable()
    requests, answers = take_pipes()
    setup = receive_request(requests)
    if not isinstance(setup, Setup):
        return 1
    try:
        engine = _make(name, EngineContext(setup.slots, setup.max_pixels, OcrSettings.model_validate(setup.settings)))
    except ConfigurationError as error:
        say(answers, Unfit(error.detail))
        return 1
    say(answers, Ready(name, engine.version))
    while isinstance(request := receive_request(requests), Read):
        answer = examine(engine, request)
        say(answers, answer)
        if isinstance(answer, Broken):
            return 1
    return 0


def _make(name: str, context: EngineContext) -> EnginePlugin:
    point = plugins().get(name)
    if point is None:
        raise ConfigurationError(f"there is no engine {name!r} on this machine: install the package that brings it")
    try:
        factory: EngineFactory = point.load()
        engine = factory(context)
        version: object = engine.version
    except ConfigurationError:
        raise
    except Exception as error:
        raise ConfigurationError(f"the engine {name!r} does not load: {type(error).__name__}: {error}") from error
    if not isinstance(version, str):
        raise ConfigurationError(f"the version of the engine {name!r} is not a string")
    return engine


def examine(engine: EnginePlugin, request: Read) -> Answer:
    """Read one payload, turning whatever goes wrong into an answer."""
    started = time.perf_counter()
    try:
        reading = _checked(engine.read(request.data))
    except PayloadRejected as error:
        return Rejected(request.serial, error.reason, error.detail)
    except MemoryError as error:
        return Broken(request.serial, "out_of_memory", str(error) or "not enough memory")
    except Exception as error:  # noqa: BLE001 - the runner decides what follows, it needs an answer in any case
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return Broken(request.serial, "engine_error", f"{type(error).__name__}: {error}"[-500:])
    return Done(request.serial, reading.lines, reading.width, reading.height, time.perf_counter() - started)


def _checked(result: Any) -> Reading:
    """Return what an engine gave, if it is what it may give.

    Raises:
        msgspec.ValidationError: it is something else.
        ValueError: its text cannot be stored.
    """
    if isinstance(result, str):
        result = Reading(tuple(Line(text, _NOWHERE, 1.0) for text in result.split("\n") if text), 0, 0)
    # The types that it declares are not checked by Python.
    reading = msgspec.convert(result, Reading, from_attributes=True)
    for line in reading.lines:
        line.text.encode()
        if "\0" in line.text or "\n" in line.text:
            raise ValueError("the engine returned a line with U+0000 or a line break in it")
    return reading


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
