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
from pathlib import Path
from typing import BinaryIO, Final

from detectsched.errors import ConfigurationError, PayloadRejected
from detectsched.ocr.canary import require_canary
from detectsched.ocr.decode import decode
from detectsched.ocr.engine import Engine, build_engine
from detectsched.ocr.protocol import Answer, Broken, Done, Read, Ready, Rejected, Setup, Unfit, frame, receive_request
from detectsched.settings import OcrSettings

_PR_SET_PDEATHSIG: Final = 1
_OOM_SCORE: Final = "500"
"""Short of memory, the kernel ends an engine rather than the runner; raising one's own score needs no privilege."""
_OUT_OF_MEMORY: Final = ("ResourceExhaustedError", "Out of memory error on GPU", "Failed to allocate memory")
"""How Paddle and ONNX Runtime word it; their exception types differ between versions and devices."""


def main() -> int:
    """Serve until the runner closes the pipe; the return value is the exit status."""
    _be_expendable()
    requests, answers = _take_pipes()
    setup = receive_request(requests)
    if not isinstance(setup, Setup):
        return 1
    try:
        engine = build_engine(OcrSettings.model_validate(setup.settings), setup.slots)
        require_canary(engine)
    except ConfigurationError as error:
        _say(answers, Unfit(error.detail))
        return 1
    _say(answers, Ready(engine.name, engine.version))
    while isinstance(request := receive_request(requests), Read):
        answer = examine(engine, request, setup.max_pixels)
        _say(answers, answer)
        if isinstance(answer, Broken):
            # After an error inside native code nothing about this process can be relied on.
            return 1
    return 0


def examine(engine: Engine, request: Read, max_pixels: int) -> Answer:
    """Decode and read one image, turning whatever goes wrong into an answer."""
    started = time.perf_counter()
    try:
        image = decode(request.data, max_pixels=max_pixels)
        lines = engine.read(image)
    except PayloadRejected as error:
        return Rejected(request.serial, error.reason, error.detail)
    except MemoryError as error:
        return Broken(request.serial, "out_of_memory", str(error) or "not enough memory")
    except Exception as error:  # noqa: BLE001 - the runner decides what follows, it needs an answer in any case
        text = f"{type(error).__name__}: {error}"
        print(text, file=sys.stderr)
        reason = "out_of_memory" if any(mark in text for mark in _OUT_OF_MEMORY) else "engine_error"
        return Broken(request.serial, reason, text[-500:])
    height, width = image.shape[:2]
    return Done(request.serial, lines, width, height, time.perf_counter() - started)


def _be_expendable() -> None:
    """Ignore Ctrl-C (the runner decides), die with the runner, and be the first to go when memory runs out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError, AttributeError):
        # A busy engine would notice a closed pipe only after its image. (The signal follows the thread that started
        # this process; that is the one with the event loop, which lives as long as the runner.)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE)


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Move the protocol away from standard input and output, so that a library's prints cannot get in between."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return requests, answers


def _say(answers: BinaryIO, answer: Answer) -> None:
    answers.write(frame(answer))
    answers.flush()


if __name__ == "__main__":
    sys.exit(main())
