"""A system that is started for one benchmark and leaves nothing behind."""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from detectsched.embedded.up import System, UpOptions, up


async def on_own_system(
    guest: Callable[[System], Awaitable[int]], *, ocr_runners: int = 0, text_runners: int = 0
) -> int:
    """Let ``guest`` measure a fresh system with these runners; return its status, or that of a failed start."""
    with tempfile.TemporaryDirectory(prefix="detectsched-bench-") as directory:
        data = Path(directory)
        options = UpOptions(data=data, port=0, ocr_runners=ocr_runners, text_runners=text_runners, log=data / "up.log")
        return await up(options, guest=guest)
