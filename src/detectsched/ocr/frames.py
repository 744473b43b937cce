"""How many frames or pages a file holds, and which of them are read; nothing is decoded to find that out."""

from __future__ import annotations

import struct
from typing import Final

from PIL import Image

from detectsched.ocr.formats import BadImage, Problem, format_of
from detectsched.settings import FramePolicy

_TRAILER: Final = 0x3B
MOST_COUNTED: Final = 100
"""Counting stops here: more is a long animation whatever the exact number."""


_REACH: Final = 4
"""A frame of an animation is drawn over those before it, so all of these are decoded: at most so many times the pixels
that may be read."""


def chosen_frames(count: int, pixels: int, *, policy: FramePolicy, most: int, max_pixels: int) -> list[int]:
    """Return the numbers of the frames or pages that are read, from 0.

    Args:
        count: how many there are.
        pixels: of the first one.
        policy: which are wanted.
        most: how many may be read.
        max_pixels: how many pixels may be read in all.

    Raises:
        BadImage: all are wanted, and that is too many.
    """
    room = max(1, min(most, max_pixels // pixels))
    if policy is FramePolicy.ALL and count > room:
        raise BadImage(
            Problem.TOO_MANY_FRAMES,
            f"there are {count if count < MOST_COUNTED else f'{count} or more'} frames or pages of {pixels} pixels; at "
            f"most {room} of that size are read: send them one by one",
        )
    if policy is FramePolicy.FIRST or room == 1:
        return [0]
    last = min(count, max(1, _REACH * max_pixels // pixels)) - 1
    wanted = min(last + 1, room)
    return sorted({round(number * last / max(1, wanted - 1)) for number in range(wanted)})


def count_frames(image: Image.Image, data: bytes) -> int:
    """Return how many frames or pages there are, from 1 to `MOST_COUNTED`.

    PNG, WebP, AVIF and JPEG say it in their header. Pillow finds it out for GIF and TIFF by walking the whole file,
    which takes seconds for one made of a million tiny frames, so those two are walked here, with an end.
    """
    name = format_of(image)
    if name == "GIF":
        found, _ = _walk_gif(data)
    elif name == "TIFF":
        found = _tiff_pages(data)
    else:
        found = int(getattr(image, "n_frames", 1))
    return max(1, min(found, MOST_COUNTED))


def is_whole_gif(data: bytes) -> bool:
    """Whether a GIF has its trailer, or more frames than are counted before it."""
    frames, trailer = _walk_gif(data)
    return trailer or frames >= MOST_COUNTED


def _walk_gif(data: bytes) -> tuple[int, bool]:
    """Count the image descriptors (GIF89a specification, section 20); return also whether the trailer follows them."""
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
    return frames, at < end and data[at] == _TRAILER


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
