"""Which image formats are read, and how a file is opened without decoding a pixel.

The API's check of the header and the strict decode in the engine's process both open files here, so what one accepts
the other understands. HEIC is read where the extra `heic` is installed: on the API and on the runners.
"""

from __future__ import annotations

import contextlib
import warnings
from enum import StrEnum
from io import BytesIO
from typing import Final

# Importing a plugin registers it: `Image.open` loads none by itself once it is told which formats to try.
from PIL import (
    AvifImagePlugin,  # noqa: F401
    BmpImagePlugin,  # noqa: F401
    GifImagePlugin,  # noqa: F401
    Image,
    JpegImagePlugin,  # noqa: F401
    PngImagePlugin,  # noqa: F401
    TiffImagePlugin,  # noqa: F401
    WebPImagePlugin,  # noqa: F401
    features,
)

MEDIA_TYPES: Final = {
    "JPEG": "image/jpeg",
    "PNG": "image/png",
    "WEBP": "image/webp",
    "GIF": "image/gif",
    "TIFF": "image/tiff",
    "BMP": "image/bmp",
    "AVIF": "image/avif",
    "HEIF": "image/heic",
}
"""The formats that are read, as Pillow calls them, and their media types."""

_optional: set[str] = {"AVIF"} if features.check("avif") else set()
with contextlib.suppress(ImportError):
    import pillow_heif

    pillow_heif.register_heif_opener(thumbnails=False)
    _optional.add("HEIF")
_FORMATS: Final = tuple(name for name in MEDIA_TYPES if name not in {"AVIF", "HEIF"} or name in _optional)

READABLE: Final = "JPEG, PNG, WebP, GIF, TIFF, BMP" + (", HEIC" if "HEIF" in _optional else "") + " or AVIF"

MIN_SIDE: Final = 8
"""Shortest side in pixels; nothing legible is smaller, and both engines misbehave below it."""

_SIGNATURES: Final = (
    (0, b"\xff\xd8\xff", "JPEG"),
    (0, b"\x89PNG\r\n\x1a\n", "PNG"),
    (8, b"WEBP", "WEBP"),
    (0, b"GIF87a", "GIF"),
    (0, b"GIF89a", "GIF"),
    (0, b"II*\0", "TIFF"),
    (0, b"MM\0*", "TIFF"),
    (0, b"II+\0", "TIFF"),
    (0, b"MM\0+", "TIFF"),
    (0, b"BM", "BMP"),
    (4, b"ftypavif", "AVIF"),
    (4, b"ftypavis", "AVIF"),
)
_HEIF: Final = ((4, b"ftyphei", "HEIC"), (4, b"ftyphev", "HEIC"), (4, b"ftypmif1", "HEIF"))
_STRANGERS: Final = (
    (0, b"%PDF", "a PDF"),
    *_HEIF,
    (0, b"8BPS", "a Photoshop file"),
    (0, b"PK\3\4", "a ZIP archive"),
    (0, b"<", "HTML, SVG or other markup"),
    (0, b"{", "JSON"),
)
# Pillow's own guard warns at one limit and raises at twice that; ours is a setting, is lower, and is checked in
# `open_image` before anything is decoded.
Image.MAX_IMAGE_PIXELS = None
# What Pillow remarks about odd files ("Corrupt EXIF data") would fill our log in words a stranger chooses.
warnings.filterwarnings("ignore", module=r"PIL\.")


class Problem(StrEnum):
    """Why an image cannot be examined; the words are stable and end up as a task's reason."""

    UNSUPPORTED_FORMAT = "unsupported_format"
    """Not an image, or of a format that is not read."""
    UNDECODABLE_IMAGE = "undecodable_image"
    """The beginning is right, but the file is damaged or cut short."""
    TOO_MANY_PIXELS = "too_many_pixels"
    TOO_MANY_FRAMES = "too_many_frames"
    """All frames or pages were to be read, and there are more than may be."""
    IMAGE_TOO_SMALL = "image_too_small"


class BadImage(Exception):
    """An image that cannot be examined, and what the sender can do about it."""

    def __init__(self, problem: Problem, detail: str) -> None:
        super().__init__(detail)
        self.problem = problem
        self.detail = detail


def open_image(data: bytes, max_pixels: int) -> Image.Image:
    """Open an image by its header; pixels stay undecoded until its ``load()``.

    Args:
        data: the whole file.
        max_pixels: most pixels (width times height) that are accepted.

    Raises:
        BadImage: with the `Problem` and a detail for the sender.
    """
    try:
        image = Image.open(BytesIO(data), formats=_FORMATS)
    except MemoryError:
        raise
    except Exception as error:
        raise _unopenable(data) from error
    check_size(image, max_pixels)
    return image


def check_size(image: Image.Image, max_pixels: int) -> None:
    """Judge the size of an image, or of the frame or page that it stands at.

    Raises:
        BadImage: it is too large or too small.
    """
    width, height = image.size
    if width * height > max_pixels:
        raise BadImage(
            Problem.TOO_MANY_PIXELS,
            f"the image is {width} × {height} = {width * height} pixels; at most {max_pixels} are read: scale it down",
        )
    if min(width, height) < MIN_SIDE:
        raise BadImage(
            Problem.IMAGE_TOO_SMALL,
            f"the image is {width} × {height} pixels; each side must have at least {MIN_SIDE}",
        )


def format_of(image: Image.Image) -> str:
    """Return the format's name as in `MEDIA_TYPES`."""
    # A phone's photo with a preview or a depth map inside is a JPEG with more JPEGs behind it, which Pillow calls MPO.
    name = image.format or ""
    return "JPEG" if name == "MPO" else name


def _unopenable(data: bytes) -> BadImage:
    """Say whether this is a stranger or one of ours that is broken."""
    if not data:
        return BadImage(Problem.UNSUPPORTED_FORMAT, f"the image is empty; send a {READABLE} file")
    for start, signature, name in _SIGNATURES + (_HEIF if "HEIF" in _optional else ()):
        if data[start : start + len(signature)] == signature:
            return BadImage(
                Problem.UNDECODABLE_IMAGE,
                f"it begins like {name}, but its header is damaged or cut short: send the whole file again",
            )
    beginning = data[:64].lstrip()
    for start, signature, name in _STRANGERS:
        if beginning[start : start + len(signature)] == signature:
            return BadImage(
                Problem.UNSUPPORTED_FORMAT, f"this looks like {name}, not an image that is read: send {READABLE}"
            )
    return BadImage(Problem.UNSUPPORTED_FORMAT, f"this is not an image that is read: send {READABLE}")
