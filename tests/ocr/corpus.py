"""Odd files, made by code: those that everybody can read and machines trip over, and those that mean harm.

The kinds are those on which PaddleOCR and RapidOCR were seen to return nothing, half, or another image's text.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pillow_heif
from PIL import Image, PngImagePlugin

from tests.ocr.drawing import CHINESE, ENGLISH, encoded, page
from tests.ocr.files import interlaced, png_header, row_of, webp_header, with_pixels_cut

# Makes Pillow write HEIC.
pillow_heif.register_heif_opener()

WORDS: Final = (CHINESE, ENGLISH)
Make = Callable[[], bytes]


def sheet(**options: Any) -> Image.Image:
    """Draw the words, small enough to be read quickly."""
    return page(WORDS, **{"width": 460, "height": 190} | options)


def _as(name: str, change: Callable[[Image.Image], Image.Image] = lambda image: image, **options: Any) -> Make:
    return lambda: encoded(change(sheet()), name, **options)


def _inked(ink: Any, ground: Any, mode: str = "RGB", name: str = "PNG", **options: Any) -> Make:
    return lambda: encoded(sheet(ink=ink, ground=ground, mode=mode), name, **options)


def _turned(degrees: int) -> Make:
    return lambda: encoded(sheet().rotate(degrees, expand=True, fillcolor="white"))


def _held(orientation: int, degrees: int) -> Make:
    """Store the page turned, and say so in EXIF."""

    def make() -> bytes:
        exif = Image.Exif()
        exif[0x0112] = orientation
        return encoded(sheet().rotate(degrees, expand=True), "JPEG", quality=90, exif=exif)

    return make


def _deep() -> bytes:
    """Use 12 bits of 16-bit words."""
    return encoded(Image.fromarray(np.asarray(sheet(mode="L")).astype(np.uint16) * 16))


def _frames(name: str, **options: Any) -> Make:
    """Show one word in the first frame and the other in the last."""

    def make() -> bytes:
        first, *others = (page([word], width=460, height=110) for word in WORDS)
        blank = page([], width=460, height=110)
        return encoded(first, name, save_all=True, append_images=[blank, *others], **options)

    return make


def _photo_with_preview() -> bytes:
    return encoded(sheet(), "MPO", save_all=True, append_images=[sheet().resize((92, 38))])


BLACK, WHITE, NONE_BLACK, NONE_WHITE = (0, 0, 0, 255), (255, 255, 255, 255), (0, 0, 0, 0), (255, 255, 255, 0)

LEGIBLE: Final[dict[str, Make]] = {
    "PNG": _as("PNG"),
    "interlaced PNG": lambda: interlaced(sheet()),
    "JPEG": _as("JPEG", quality=90),
    "progressive JPEG": _as("JPEG", quality=90, progressive=True),
    "a phone's photo with a preview": _photo_with_preview,
    "WebP": _as("WEBP", quality=90),
    "BMP": _as("BMP"),
    "TIFF": _as("TIFF", compression="tiff_lzw"),
    "AVIF": _as("AVIF"),
    "HEIC": _as("HEIF"),
    "GIF": _as("GIF"),
    "palette": _as("PNG", lambda image: image.convert("P")),
    "one bit": _as("PNG", lambda image: image.convert("1")),
    "fax": _as("TIFF", lambda image: image.convert("1"), compression="group4"),
    "grey with alpha": _as("PNG", lambda image: image.convert("LA")),
    "opaque alpha": _as("PNG", lambda image: image.convert("RGBA")),
    "CMYK": _as("JPEG", lambda image: image.convert("CMYK"), quality=90),
    "16 bit": _deep,
    "black on nothing": _inked(BLACK, NONE_BLACK, "RGBA"),
    "white on nothing": _inked(WHITE, NONE_WHITE, "RGBA"),
    "white on nothing, WebP": _inked(WHITE, NONE_WHITE, "RGBA", "WEBP", lossless=True),
    "dark mode": _inked("white", (18, 18, 18)),
    "low contrast": _inked((225, 225, 225), (250, 250, 250)),
    "poor JPEG": _as("JPEG", quality=30),
    "EXIF 3": _held(3, 180),
    "EXIF 6": _held(6, 90),
    "on its side": _turned(90),
    "on its other side": _turned(270),
    "on its head": _turned(180),
    "slanted": _turned(10),
    "animated GIF": _frames("GIF"),
    "animated WebP": _frames("WEBP", lossless=True),
    "animated PNG": _frames("PNG"),
    "pages of a TIFF": _frames("TIFF"),
}
"""Every one says `WORDS`, all of it."""


def _cut(name: str, share: float) -> Make:
    def make() -> bytes:
        whole = encoded(Image.effect_noise((720, 640), 80).convert("RGB"), name)
        return whole[: int(len(whole) * share)]

    return make


def _cut_and_ended(share: float, **options: Any) -> Make:
    """End a part of a JPEG as if it were a whole one."""

    def make() -> bytes:
        whole = encoded(Image.effect_noise((720, 640), 80).convert("RGB"), "JPEG", **options)
        return whole[: int(len(whole) * share)] + b"\xff\xd9"

    return make


def _without_last_row() -> bytes:
    png = encoded(sheet())
    return with_pixels_cut(png, row_of(png))


def _without_trailer() -> bytes:
    return encoded(sheet(), "GIF")[:-1]


def _bad_checksum() -> bytes:
    png = bytearray(encoded(sheet()))
    data = png.index(b"IDAT")
    png[data + 4 + int.from_bytes(png[data - 4 : data])] ^= 0xFF
    return bytes(png)


def _text_bomb() -> bytes:
    """Hide a hundred megabytes in a comment of a hundred kilobytes."""
    info = PngImagePlugin.PngInfo()
    squeezed = zlib.compress(b"a" * 100_000_000, 9)
    info.add(b"zTXt", b"Comment\0\0" + squeezed)
    return encoded(Image.new("RGB", (64, 64)), "PNG", pnginfo=info)


def _gif_of(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\0\0\0,\0\0\0\0\1\0\1\0\0\2\2D\1\0;"


def _tiff_of(width: int, height: int) -> bytes:
    tiff = bytearray(encoded(Image.new("L", (16, 16)), "TIFF"))
    (at,) = struct.unpack_from("<I", tiff, 4)
    (count,) = struct.unpack_from("<H", tiff, at)
    for entry in range(at + 2, at + 2 + 12 * count, 12):
        tag, kind = struct.unpack_from("<HH", tiff, entry)
        if tag in {256, 257}:
            struct.pack_into("<HHII", tiff, entry, tag, 4, 1, width if tag == 256 else height)
        del kind
    return bytes(tiff)


def _later_page_too_large() -> bytes:
    small = Image.new("1", (64, 64), 1)
    return encoded(small, "TIFF", save_all=True, append_images=[Image.new("1", (9000, 9000))], compression="group4")


HOSTILE: Final[dict[str, tuple[Make, str]]] = {
    "nothing": (lambda: b"", "unsupported_format"),
    "text": (lambda: b"just words", "unsupported_format"),
    "a page of HTML": (lambda: b"<!doctype html><script>alert(1)</script>", "unsupported_format"),
    "HTML behind a GIF's beginning": (lambda: b"GIF89a<script>alert(1)</script>", "undecodable_image"),
    "PDF": (lambda: b"%PDF-1.7\n", "unsupported_format"),
    "an icon": (_as("ICO"), "unsupported_format"),
    "PostScript": (lambda: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 99 99\n", "unsupported_format"),
    "one pixel": (lambda: encoded(Image.new("RGB", (1, 1))), "image_too_small"),
    "4000 × 3": (lambda: encoded(Image.new("RGB", (4000, 3))), "image_too_small"),
    "a PNG's header of 400 MP": (lambda: png_header(20_000, 20_000), "too_many_pixels"),
    "a WebP's canvas of 268 MP": (lambda: webp_header(16_383, 16_383), "too_many_pixels"),
    "a GIF's screen of 4295 MP": (lambda: _gif_of(65_535, 65_535), "too_many_pixels"),
    "a TIFF's header of 4295 MP": (lambda: _tiff_of(65_535, 65_535), "too_many_pixels"),
    "144 MP in 41 KB": (lambda: encoded(Image.new("1", (12_000, 12_000))), "too_many_pixels"),
    "a later page of 81 MP": (_later_page_too_large, "too_many_pixels"),
    "100 MB in a comment": (_text_bomb, "undecodable_image"),
    "bad checksum": (_bad_checksum, "undecodable_image"),
    "a GIF without its end": (_without_trailer, "undecodable_image"),
    "a header without pixels": (lambda: png_header(300, 200), "undecodable_image"),
    "a PNG without its last row": (_without_last_row, "undecodable_image"),
    "half of a JPEG, properly ended": (_cut_and_ended(0.5), "undecodable_image"),
    "99% of a JPEG, properly ended": (_cut_and_ended(0.99), "undecodable_image"),
    "half of a progressive JPEG, properly ended": (_cut_and_ended(0.5, progressive=True), "undecodable_image"),
    **{
        f"{share:.0%} of a {name}": (_cut(name, share), "undecodable_image")
        for name in ("JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP", "AVIF", "HEIF")
        for share in (0.05, 0.5, 0.99)
    },
}
"""Every one is refused, for this reason."""
