"""How many frames or pages a file holds, without decoding any and without walking a hostile file to its end."""

from __future__ import annotations

import struct
from typing import Final

from PIL import Image

from detectsched.ocr.formats import format_of

MOST_COUNTED: Final = 100
"""Counting stops here: more is a long animation whatever the exact number."""


def count_frames(image: Image.Image, data: bytes) -> int:
    """Return how many frames or pages there are, from 1 to `MOST_COUNTED`.

    PNG, WebP, AVIF and JPEG say it in their header. Pillow finds it out for GIF and TIFF by walking the whole file,
    which takes seconds for one made of a million tiny frames, so those two are walked here, with an end.
    """
    name = format_of(image)
    if name == "GIF":
        found = _gif_frames(data)
    elif name == "TIFF":
        found = _tiff_pages(data)
    else:
        found = int(getattr(image, "n_frames", 1))
    return max(1, min(found, MOST_COUNTED))


def _gif_frames(data: bytes) -> int:
    """Count the image descriptors (GIF89a specification, section 20)."""
    end = len(data)
    at = 13 + _colour_table(data[10])
    frames = 0
    while at < end and frames < MOST_COUNTED:
        kind = data[at]
        if kind == 0x2C and at + 9 < end:  # image descriptor, colour table, code size, data
            frames += 1
            at += 11 + _colour_table(data[at + 9])
        elif kind == 0x21:  # extension: label, data
            at += 2
        else:  # trailer, or no GIF any more
            break
        while at < end and data[at]:
            at += data[at] + 1
        at += 1
    return frames


def _colour_table(flags: int) -> int:
    return 3 * 2 ** ((flags & 7) + 1) if flags & 0x80 else 0


def _tiff_pages(data: bytes) -> int:
    """Follow the chain of directories (TIFF 6.0 specification, section 2; BigTIFF counts as one page)."""
    order = "<" if data[:2] == b"II" else ">"
    if data[2:4] not in {b"*\0", b"\0*"}:
        return 1
    pages = 0
    seen: set[int] = set()
    (at,) = struct.unpack_from(order + "I", data, 4)
    while at and at not in seen and at + 2 <= len(data) and pages < MOST_COUNTED:
        seen.add(at)
        pages += 1
        (entries,) = struct.unpack_from(order + "H", data, at)
        following = at + 2 + 12 * entries
        if following + 4 > len(data):
            break
        (at,) = struct.unpack_from(order + "I", data, following)
    return pages
