"""A stand-in for an OCR engine: speaks the real protocol, takes a log-normal time, and sometimes misbehaves.

``python -m chaos.engine SEED``. An image whose file holds `POISON` crashes every engine that gets it.
"""

from __future__ import annotations

import math
import os
import random
import signal
import sys
import time
from typing import Final

from detectsched.detection import Box, Line
from detectsched.ocr.protocol import Done, Read, Ready, Setup, frame, receive_request

POISON: Final = b"poison-for-the-stand-in"
_MEDIAN_SECONDS: Final = 0.012
_SIGMA: Final = 1.1
_LEAST_SECONDS: Final = 0.001
_MOST_SECONDS: Final = 0.2


def main() -> int:
    """Serve until the runner closes the pipe."""
    chance = random.Random(f"{sys.argv[1]}:{os.getpid()}")  # noqa: S311 - not a secret
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    if not isinstance(receive_request(requests), Setup):
        return 1
    answers.write(frame(Ready("stand-in", "1")))
    answers.flush()
    while isinstance(request := receive_request(requests), Read):
        if POISON in request.data:
            os.kill(os.getpid(), signal.SIGSEGV)
        seconds = chance.lognormvariate(math.log(_MEDIAN_SECONDS), _SIGMA)
        time.sleep(min(max(seconds, _LEAST_SECONDS), _MOST_SECONDS))
        answers.write(frame(Done(request.serial, (Line("a line", Box(0, 0, 9, 9), 1.0),), 10, 10, seconds)))
        answers.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
