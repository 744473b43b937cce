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

    Raises:
        ValueError: the file does not begin with its header, as only Pillow accepts.
    """
    if np.asarray(image.crop((0, image.height - 2, *image.size))).reshape(2, -1).any(axis=1).all():
        return False
    if data[12:16] != b"IHDR":
        raise ValueError("its first chunk is not IHDR")
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
    for piece in _image_data(data):
        rest, more = piece, True
        while more and not inflater.eof:
            found = inflater.decompress(rest, _PIECE)
            count += len(found)
            if count >= enough:
                return count
            rest = inflater.unconsumed_tail
            # A full one may have more behind it, although the piece is used up.
            more = bool(rest) or len(found) == _PIECE
    return count


def _image_data(data: bytes) -> Iterator[bytes]:
    """Yield what is in the IDAT chunks of a file whose chunks have been verified, and nothing of what is behind them.

    In pieces: what zlib has not used it copies at every call.
    """
    at, kind = 8, b""
    while kind != b"IEND" and at + 8 <= len(data):
        (length,) = struct.unpack_from(">I", data, at)
        kind, end = data[at + 4 : at + 8], at + 8 + length
        if kind == b"IDAT":
            for low in range(at + 8, end, _PIECE):
                yield data[low : min(low + _PIECE, end)]
        at = end + 4
