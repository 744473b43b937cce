"""The engine alone, in one process and one loop, without anything of the platform around it.

``python -m detectsched.bench.bare_engine SLOTS`` says when it is warm; then, for each line ``FIRST COUNT`` on standard
input, it draws so many pages from that number on, says so, reads them when told to by another line, and says so again.
Started by `bench.ocr`, one for each slot.
"""

from __future__ import annotations

import sys
from typing import Final

from detectsched.bench.pages import screenshot
from detectsched.ocr.canary import require_canary
from detectsched.ocr.decode import decode
from detectsched.ocr.engine import build_engine
from detectsched.settings import load_settings

_WARM: Final = 3


def main(slots: int) -> None:
    """Read images, drawn beforehand, as fast as the engine can."""
    settings = load_settings()
    engine = build_engine(settings.ocr, slots)
    require_canary(engine)

    def read(page: bytes) -> None:
        engine.read(decode(page, max_pixels=settings.api.max_image_pixels))

    for number in range(_WARM):
        read(screenshot(1_000_000 + number))
    print("warm", flush=True)
    for line in sys.stdin:
        first, count = map(int, line.split())
        pages = [screenshot(number) for number in range(first, first + count)]
        print("drawn", flush=True)
        sys.stdin.readline()
        for page in pages:
            read(page)
        print("read", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
