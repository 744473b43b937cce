"""The engine alone, in one process and one loop, without anything of the platform around it.

``python -m detectsched.bench.bare_engine SLOTS IMAGES`` waits for a line on standard input once it is warm, reads, and
prints the seconds; started by `bench.ocr`, one for each slot.
"""

from __future__ import annotations

import sys
import time
from typing import Final

from detectsched.bench.pages import screenshot
from detectsched.ocr.canary import require_canary
from detectsched.ocr.decode import decode
from detectsched.ocr.engine import build_engine
from detectsched.settings import load_settings

_WARM: Final = 3


def main(slots: int, images: int) -> None:
    """Read images, drawn beforehand, as fast as the engine can."""
    settings = load_settings()
    engine = build_engine(settings.ocr, slots)
    require_canary(engine)
    pages = [screenshot(1_000_000 + number) for number in range(images)]
    for page in pages[:_WARM]:
        engine.read(decode(page, max_pixels=settings.api.max_image_pixels))
    print("ready", flush=True)
    sys.stdin.readline()
    began = time.perf_counter()
    for page in pages:
        engine.read(decode(page, max_pixels=settings.api.max_image_pixels))
    print(time.perf_counter() - began, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
