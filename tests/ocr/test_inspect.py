"""The API's look at an image's header."""

from __future__ import annotations

import re
import struct
import tracemalloc
from functools import partial
from typing import Any

import pytest
from PIL import Image

from detectsched.errors import InvalidRequest, RequestRefused, TooLarge, UnsupportedMedia
from detectsched.ocr.formats import MIN_SIDE
from detectsched.ocr.frames import MOST_COUNTED
from detectsched.ocr.inspect import ImageFacts, inspect_image
from tests.ocr.drawing import encoded
from tests.ocr.files import beginning, png_header, quickest, webp_header

LIMIT = 40_000_000
BLACK_BOMB = encoded(Image.new("1", (12_000, 12_000)))
PICTURE = Image.effect_noise((300, 200), 60).convert("RGB")


def animation(name: str, count: int, **options: Any) -> bytes:
    """Return a file with several different frames."""
    first, *others = (Image.new("RGB", (40, 30), (n % 256, n * 7 % 256, 200)) for n in range(count))
    return encoded(first, name, save_all=True, append_images=others, **options)


@pytest.mark.parametrize(
    ("name", "media_type"),
    [
        ("JPEG", "image/jpeg"),
        ("PNG", "image/png"),
        ("WEBP", "image/webp"),
        ("GIF", "image/gif"),
        ("TIFF", "image/tiff"),
        ("BMP", "image/bmp"),
        ("AVIF", "image/avif"),
    ],
)
def test_every_format_that_is_read_is_recognised_by_its_content(name: str, media_type: str) -> None:
    """The facts come from the bytes; no name or declared type is asked."""
    assert inspect_image(encoded(PICTURE, name), max_pixels=LIMIT) == ImageFacts(media_type, name, 300, 200, 1)


def test_a_phones_photo_with_a_preview_inside_is_a_jpeg() -> None:
    """Pillow calls it MPO; nobody else does."""
    photo = encoded(PICTURE, "MPO", save_all=True, append_images=[PICTURE.resize((60, 40))])
    assert inspect_image(photo, max_pixels=LIMIT) == ImageFacts("image/jpeg", "JPEG", 300, 200, 2)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("GIF", {}),
        ("TIFF", {}),
        ("TIFF", {"big_tiff": False, "compression": "tiff_lzw"}),
        ("PNG", {}),
        ("WEBP", {"lossless": True}),
        ("AVIF", {}),
    ],
)
def test_frames_and_pages_are_counted(name: str, options: dict[str, Any]) -> None:
    """Five frames are five in every format that can hold several."""
    assert inspect_image(animation(name, 5, **options), max_pixels=LIMIT).frames == 5


def test_counting_frames_has_an_end() -> None:
    """A file of many frames is not walked to its end."""
    gif = animation("GIF", 130)
    assert inspect_image(gif, max_pixels=LIMIT).frames == MOST_COUNTED


def test_a_tiff_whose_pages_lead_in_a_circle_is_counted_once_each() -> None:
    """A directory that names itself as the next one would keep a naive reader for ever."""
    tiff = bytearray(encoded(PICTURE, "TIFF"))
    (first,) = struct.unpack_from("<I", tiff, 4)
    (entries,) = struct.unpack_from("<H", tiff, first)
    struct.pack_into("<I", tiff, first + 2 + 12 * entries, first)
    assert inspect_image(bytes(tiff), max_pixels=LIMIT).frames == 1


@pytest.mark.parametrize(
    ("data", "error", "says"),
    [
        (b"", UnsupportedMedia, "empty"),
        (b"hello world, this is text", UnsupportedMedia, "not an image that is read: send JPEG, PNG"),
        (b"<!doctype html><html>", UnsupportedMedia, "HTML"),
        (b'  <svg xmlns="http://www.w3.org/2000/svg">', UnsupportedMedia, "SVG"),
        (b"%PDF-1.7 ...", UnsupportedMedia, "PDF"),
        (b"\0\0\0\x18ftypheic\0\0\0\0", UnsupportedMedia, "HEIC"),
        (b'{"image": "..."}', UnsupportedMedia, "JSON"),
        (b"\x89PNG\r\n\x1a\n\0\0", UnsupportedMedia, "begins like PNG.*damaged or cut short"),
        (encoded(PICTURE, "WEBP")[:100], UnsupportedMedia, "begins like WEBP"),
        (encoded(PICTURE, "AVIF")[:100], UnsupportedMedia, "begins like AVIF"),
        (encoded(PICTURE, "ICO"), UnsupportedMedia, "not an image that is read"),
        (encoded(PICTURE, "PPM"), UnsupportedMedia, "not an image that is read"),
        (png_header(8000, 5001), TooLarge, "8000 × 5001 = 40008000 pixels; at most 40000000"),
        (png_header(20_000, 20_000), TooLarge, "scale it down"),
        (png_header(2**31 - 1, 2**31 - 1), TooLarge, "scale it down"),
        (webp_header(16_383, 16_383), TooLarge, "16383 × 16383"),
        (png_header(4000, MIN_SIDE - 1), InvalidRequest, "4000 × 7 pixels; each side must have at least 8"),
        (encoded(PICTURE.resize((1, 1))), InvalidRequest, "1 × 1"),
    ],
    ids=beginning,
)
def test_what_cannot_be_read_is_refused_at_once_and_says_why(
    data: bytes, error: type[RequestRefused], says: str
) -> None:
    """Each refusal has its own status and names the field."""
    with pytest.raises(error) as refused:
        inspect_image(data, max_pixels=LIMIT, field="photo")
    assert type(refused.value) is error
    assert refused.value.field == "photo"
    assert re.search(says, refused.value.detail)


def test_an_image_of_exactly_the_limit_is_accepted() -> None:
    """The limit is the largest that is read; and Pillow's own, lower, warning does not get in the way."""
    assert inspect_image(png_header(8000, 5000), max_pixels=LIMIT).width == 8000
    assert inspect_image(png_header(20_000, 15_000), max_pixels=300_000_000).height == 15_000
    assert inspect_image(png_header(MIN_SIDE, MIN_SIDE), max_pixels=LIMIT).width == MIN_SIDE


def test_a_bomb_is_refused_without_its_pixels() -> None:
    """A few kilobytes that claim 400 million pixels cost neither 50 ms nor memory."""

    def refuse() -> None:
        for bomb in (png_header(20_000, 20_000), webp_header(16_383, 16_383), BLACK_BOMB):
            with pytest.raises(TooLarge):
                inspect_image(bomb, max_pixels=LIMIT)

    assert quickest(refuse) < 0.05
    tracemalloc.start()
    refuse()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10_000_000


@pytest.mark.parametrize("name", ["JPEG", "PNG", "GIF", "TIFF", "BMP"])
def test_damage_behind_the_header_is_not_the_apis_business(name: str) -> None:
    """Half an image is accepted here; decoding finds out."""
    whole = encoded(PICTURE, name)
    assert inspect_image(whole[: len(whole) // 2], max_pixels=LIMIT).width == 300


def test_twenty_megabytes_take_a_few_milliseconds() -> None:
    """The largest file that is accepted is not decoded, whatever its format; a GIF's blocks are stepped over."""
    huge = Image.new("L", (4400, 4400))
    gif = encoded(PICTURE, "GIF")
    start = gif.index(b"\x2c", 13 + 3 * 256) + 11
    files = {
        "BMP": encoded(huge, "BMP"),
        "TIFF": encoded(huge, "TIFF"),
        "PNG": encoded(huge, "PNG", compress_level=0),
        "GIF": gif[:start] + (b"\xff" + b"\0" * 255) * 78_000 + b"\0\x3b",
    }
    for name, data in files.items():
        took = quickest(partial(inspect_image, data, max_pixels=LIMIT))
        assert took < 0.03, f"{name}: {len(data)} bytes took {took * 1000:.1f} ms"
