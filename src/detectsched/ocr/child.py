"""The engine's own process: ``python -m detectsched.ocr.child``, started by `process.EngineProcess`.

Images are decoded here and nowhere else: what a hostile file does to a decoder or an engine, it does to a process that
holds no credentials and may be killed at any time.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, Final

from detectsched.detection import Box, Line
from detectsched.errors import ConfigurationError, PayloadRejected
from detectsched.ocr.canary import require_canary
from detectsched.ocr.decode import decode_frames
from detectsched.ocr.engine import Engine, build_engine
from detectsched.ocr.faults import Fault, fault_of
from detectsched.ocr.protocol import Answer, Broken, Done, Read, Ready, Rejected, Setup, Unfit, frame, receive_request
from detectsched.settings import OcrSettings

_PR_SET_PDEATHSIG: Final = 1
_OOM_SCORE: Final = "500"
"""Short of memory, the kernel ends an engine rather than the runner; raising one's own score needs no privilege."""
_LONGEST_DETAIL: Final = 500


def main() -> int:
    """Serve until the runner closes the pipe; the return value is the exit status."""
    be_expendable()
    requests, answers = take_pipes()
    setup = receive_request(requests)
    if not isinstance(setup, Setup):
        return 1
    try:
        settings = OcrSettings.model_validate(setup.settings)
        engine = build_engine(settings, setup.slots)
        require_canary(engine)
    except ConfigurationError as error:
        say(answers, Unfit(error.detail))
        return 1
    except Exception as error:  # noqa: BLE001 - a GPU that is full or lost shows here, as whatever its library raises
        say(answers, Unfit(f"the engine does not load ({_words(error)})"))
        return 1
    say(answers, Ready(engine.name, engine.version))
    while isinstance(request := receive_request(requests), Read):
        answer = examine(engine, request, settings, setup.max_pixels)
        say(answers, answer)
        if isinstance(answer, Broken):
            # After an error inside native code nothing about this process can be relied on.
            return 1
    return 0


def examine(engine: Engine, request: Read, settings: OcrSettings, max_pixels: int) -> Answer:
    """Decode and read one image, turning whatever goes wrong into an answer.

    Out of memory, it is read once more with less of it: engines were seen to go on working after that. Whether this one
    does, its test image tells: of others it is known that they return nothing from then on (PaddleOCR issue 13145).
    """
    answer = _read(engine, request, settings, max_pixels, thrifty=request.thrifty)
    if request.thrifty or not isinstance(answer, Broken) or answer.reason != Fault.OUT_OF_MEMORY:
        return answer
    answer = _read(engine, request, settings, max_pixels, thrifty=True)
    if isinstance(answer, Done):
        try:
            require_canary(engine)
        except Exception as error:  # noqa: BLE001 - whatever it is, the engine has not survived
            return Broken(request.serial, Fault.OUT_OF_MEMORY, _words(error))
    return answer


def _read(engine: Engine, request: Read, settings: OcrSettings, max_pixels: int, *, thrifty: bool) -> Answer:
    """Read the frames or pages as one plane, each below the one before."""
    started = time.perf_counter()
    lines: list[Line] = []
    width = height = 0
    try:
        for frame in decode_frames(
            request.data, max_pixels=max_pixels, policy=settings.frames, most=settings.max_frames
        ):
            lines += (replace(line, box=_lowered(line.box, height)) for line in engine.read(frame, thrifty=thrifty))
            width, height = max(width, frame.shape[1]), height + frame.shape[0]
    except PayloadRejected as error:
        return Rejected(request.serial, error.reason, error.detail)
    except Exception as error:  # noqa: BLE001 - the runner decides what follows, it needs an answer in any case
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return Broken(request.serial, fault_of(error), _words(error))
    return Done(request.serial, tuple(lines), width, height, time.perf_counter() - started)


def _lowered(box: Box, by: int) -> Box:
    return Box(box.left, box.top + by, box.right, box.bottom + by)


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[-_LONGEST_DETAIL:]


def be_expendable() -> None:
    """Ignore Ctrl-C (the runner decides), die with the runner, and be the first to go when memory runs out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError, AttributeError):
        # A busy engine would notice a closed pipe only after its image. (The signal follows the thread that started
        # this process; that is the one with the event loop, which lives as long as the runner.)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE)


def take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Move the protocol away from standard input and output, so that a library's prints cannot get in between."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return requests, answers


def say(answers: BinaryIO, answer: Answer) -> None:
    """Send an answer."""
    answers.write(frame(answer))
    answers.flush()


if __name__ == "__main__":
    sys.exit(main())
