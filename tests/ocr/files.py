"""Image files made byte by byte."""

from __future__ import annotations

import struct
import time
import zlib
from collections.abc import Callable

from PIL import Image

from tests.ocr.drawing import encoded


def png_header(width: int, height: int) -> bytes:
    """Return a PNG that claims a size and has no pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", b"") + chunk(b"IEND", b"")


def webp_header(width: int, height: int) -> bytes:
    """Return an animated WebP whose canvas claims a size; its only frame is tiny."""
    size = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    frame = b"\0" * 6 + (15).to_bytes(3, "little") * 2 + b"\0" * 4 + encoded(Image.new("RGB", (16, 16)), "WEBP")[12:]
    body = b"WEBPVP8X" + struct.pack("<I", 10) + b"\2\0\0\0" + size
    body += b"ANIM" + struct.pack("<I", 6) + b"\0" * 6 + b"ANMF" + struct.pack("<I", len(frame)) + frame
    return b"RIFF" + struct.pack("<I", len(body)) + body


def beginning(value: object) -> str:
    """Name a parameter in a test's id; a whole file would not do."""
    if isinstance(value, bytes):
        return repr(value[:12])[2:-1].replace("\\", "~")
    return getattr(value, "__name__", str(value))


def quickest(call: Callable[[], object], attempts: int = 3) -> float:
    """Return the least processor time of some runs in seconds: what the code needs, however busy the machine is."""
    return min(_seconds(call) for _ in range(attempts))


def _seconds(call: Callable[[], object]) -> float:
    started = time.thread_time()
    call()
    return time.thread_time() - started
