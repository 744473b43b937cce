"""Whether a PNG has all its rows: Pillow leaves those that its data do not reach black, without a word."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Final

import numpy as np
from PIL import Image

_HEADER: Final = struct.Struct(">IIBBBBB")
_CHANNELS: Final = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
"""By colour type."""
_WHOLE: Final = ((0, 0, 1, 1),)
_ADAM7: Final = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
"""First column and row, and steps, of the passes of an interlaced image (PNG specification, 8.2)."""
_PIECE: Final = 65_536


def lacks_rows(image: Image.Image, data: bytes) -> bool:
    """Say whether a decoded first frame has rows that are not in the file.

    Data that end too early leave the last row zero, or of an interlaced image the last one of the last pass, which is
    one of the last two. Only where one of these is zero the data are inflated once more, and counted.
    """
    if np.asarray(image)[-2:].reshape(2, -1).any(axis=1).all():
        return False
    width, height, depth, colour, _, _, interlaced = _HEADER.unpack_from(data, 16)
    bits = depth * _CHANNELS[colour]
    wanted = sum(
        _bytes_of(-((x - width) // step_x), -((y - height) // step_y), bits)
        for x, y, step_x, step_y in (_ADAM7 if interlaced else _WHOLE)
    )
    return _inflated(data, wanted) < wanted


def _bytes_of(width: int, height: int, bits: int) -> int:
    """Return the bytes of a pass: each row has one for its filter; a pass without columns has no rows."""
    return height * (1 + (width * bits + 7) // 8) if width > 0 and height > 0 else 0


def _inflated(data: bytes, enough: int) -> int:
    """Return how many bytes the image data come to, counted up to ``enough``; nothing of them is kept."""
    inflater = zlib.decompressobj()
    count = 0
    for chunk in _image_data(data):
        rest, more = chunk, True
        while more and not inflater.eof and count < enough:
            piece = inflater.decompress(rest, _PIECE)
            count += len(piece)
            rest = inflater.unconsumed_tail
            # A full piece may have more behind it, although the chunk is used up.
            more = bool(rest) or len(piece) == _PIECE
    return count


def _image_data(data: bytes) -> Iterator[bytes]:
    """Yield the IDAT chunks of a file whose chunks have been verified."""
    at = 8
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        if data[at + 4 : at + 8] == b"IDAT":
            yield data[at + 8 : at + 8 + length]
        at += 12 + length
