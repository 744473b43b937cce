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
from pathlib import Path
from typing import BinaryIO, Final

from detectsched.errors import ConfigurationError
from detectsched.ocr.canary import require_canary
from detectsched.ocr.engine import build_engine
from detectsched.ocr.examine import examine, examine_many
from detectsched.ocr.protocol import Answer, Broken, Read, ReadMany, Ready, Setup, Unfit, frame, receive_request
from detectsched.settings import OcrSettings

_PR_SET_PDEATHSIG: Final = 1
_OOM_SCORE: Final = "500"
"""Short of memory, the kernel ends an engine rather than the runner; raising one's own score needs no privilege."""


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
        say(answers, Unfit(f"the engine does not load ({type(error).__name__}: {error})"[-500:]))
        return 1
    say(answers, Ready(engine.name, engine.version))
    while isinstance(request := receive_request(requests), Read | ReadMany):
        if isinstance(request, Read):
            answer = examine(engine, request, settings, setup.max_pixels)
        else:
            answer = examine_many(engine, request, settings, setup.max_pixels)
        say(answers, answer)
        if isinstance(answer, Broken):
            # After an error inside native code nothing about this process can be relied on.
            return 1
    return 0


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
