"""Image files made byte by byte."""

from __future__ import annotations

import struct
import time
import zlib
from collections.abc import Callable

import numpy as np
from PIL import Image

from tests.ocr.drawing import encoded

_PNG = b"\x89PNG\r\n\x1a\n"


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_header(width: int, height: int) -> bytes:
    """Return a PNG that claims a size and has no pixels."""
    header = _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return _PNG + header + _chunk(b"IDAT", b"") + _chunk(b"IEND", b"")


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


_ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


def interlaced(image: Image.Image) -> bytes:
    """Return an interlaced PNG of an image of mode L or RGB, which Pillow reads and does not write."""
    pixels = np.asarray(image)
    passes = [pixels[y::down, x::right] for x, y, right, down in _ADAM7]
    raw = b"".join(b"\0" + row.tobytes() for part in passes if part.size for row in part)
    colour = {"L": 0, "RGB": 2}[image.mode]
    header = struct.pack(">IIBBBBB", *image.size, 8, colour, 0, 0, 1)
    return _PNG + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(raw)) + _chunk(b"IEND", b"")


def row_of(png: bytes) -> int:
    """Return how many bytes the last row of a PNG has before they are squeezed, that for its filter included."""
    width, _, depth, colour = struct.unpack_from(">IIBB", png, 16)
    return int(1 + (width * depth * {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour] + 7) // 8)


def with_pixels_cut(png: bytes, lost: int) -> bytes:
    """Return a PNG whose pixels end some bytes (at most all but one) too early, and which is right in all else."""
    at, out, squeezed = len(_PNG), _PNG, b""
    while at < len(png):
        length, kind = int.from_bytes(png[at : at + 4], "big"), png[at + 4 : at + 8]
        body = png[at + 8 : at + 8 + length]
        if kind == b"IDAT":
            squeezed += body
        elif kind != b"IEND":
            out += _chunk(kind, body)
        at += 12 + length
    raw = zlib.decompress(squeezed)
    return out + _chunk(b"IDAT", zlib.compress(raw[: max(1, len(raw) - lost)])) + _chunk(b"IEND", b"")
