"""Whether the data of a JPEG are all there: libjpeg fills up what is missing with grey and calls that a warning."""

from __future__ import annotations

from typing import Final

import simplejpeg

_EIGHTH: Final = 8
"""libjpeg decodes to an eighth of the sides for half the time; the data are read to their end for it all the same."""
_LOST: Final = (
    "premature end",
    "bad Huffman code",
    "bad arithmetic code",
    "instead of RST",
)
"""Warnings (jerror.h of libjpeg-turbo) after which pixels are made up; others (stray bytes, odd headers) harm none."""


def what_is_lost(data: bytes) -> str | None:
    """Return libjpeg's words for pixels that it would make up; None if there are none, or it cannot tell.

    Pillow hides these warnings. A file that libjpeg refuses altogether is left to Pillow's judgement.
    """
    try:
        simplejpeg.decode_jpeg(
            data, colorspace="GRAY", min_height=1, min_width=1, min_factor=_EIGHTH, fastdct=True, strict=True
        )
    except ValueError as error:
        words = str(error)
        return words if any(loss in words for loss in _LOST) else None
    return None
