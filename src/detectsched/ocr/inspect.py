"""The API's look at an image: its header, never its pixels.

An image whose damage only decoding shows is accepted here and ends ``failed`` later: decoding belongs into the engine's
process, which may be killed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from detectsched.errors import InvalidRequest, RequestRefused, TooLarge, UnsupportedMedia
from detectsched.ocr.formats import MEDIA_TYPES, BadImage, Problem, format_of, open_image
from detectsched.ocr.frames import count_frames

_REFUSALS: Final[dict[Problem, type[RequestRefused]]] = {
    Problem.UNSUPPORTED_FORMAT: UnsupportedMedia,
    Problem.UNDECODABLE_IMAGE: UnsupportedMedia,
    Problem.TOO_MANY_PIXELS: TooLarge,
    Problem.TOO_MANY_FRAMES: TooLarge,
    Problem.IMAGE_TOO_SMALL: InvalidRequest,
}


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """What the header says; ``width`` and ``height`` in pixels, before EXIF orientation.

    ``frames`` counts frames or pages and stops at `frames.MOST_COUNTED`.
    """

    media_type: str
    format: str
    width: int
    height: int
    frames: int


def inspect_image(data: bytes, *, max_pixels: int, field: str = "image") -> ImageFacts:
    """Judge an image by its header in a few milliseconds.

    Raises:
        UnsupportedMedia: not an image, not one that is read, or broken from the beginning.
        TooLarge: more than ``max_pixels``.
        InvalidRequest: a side is shorter than `formats.MIN_SIDE`.
    """
    try:
        image = open_image(data, max_pixels)
    except BadImage as bad:
        raise _REFUSALS[bad.problem](bad.detail, field=field) from bad
    with image:
        name = format_of(image)
        return ImageFacts(MEDIA_TYPES[name], name, image.width, image.height, count_frames(image, data))
