"""The strict decode: right pixels from every format, and a reason for everything else."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageFile

from detectsched.errors import PayloadRejected
from detectsched.ocr.decode import decode
from tests.ocr.drawing import encoded
from tests.ocr.files import beginning, interlaced, png_header, quickest, row_of, webp_header, with_pixels_cut

LIMIT = 40_000_000
RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)
ORIENTATION = 0x0112


def quarters(size: tuple[int, int] = (64, 32)) -> Image.Image:
    """Draw red, green (top), blue, white (bottom): every turn and every swap of channels shows."""
    width, height = size
    image = Image.new("RGB", size, RED)
    image.paste(GREEN, (width // 2, 0, width, height // 2))
    image.paste(BLUE, (0, height // 2, width // 2, height))
    image.paste(WHITE, (width // 2, height // 2, width, height))
    return image


def corners(array: NDArray[np.uint8]) -> list[tuple[int, ...]]:
    """Return the colours (RGB) in the middle of the four quarters."""
    height, width = array.shape[:2]
    places = [(y, x) for y in (height // 4, 3 * height // 4) for x in (width // 4, 3 * width // 4)]
    return [tuple(int(value) for value in array[place][::-1]) for place in places]


def close(found: list[tuple[int, ...]], wanted: list[tuple[int, ...]], tolerance: int = 12) -> bool:
    """Tell whether colours agree but for what lossy compression does."""
    return bool(np.abs(np.array(found) - np.array(wanted)).max() <= tolerance)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("JPEG", {"quality": 95, "subsampling": 0}),
        ("JPEG", {"quality": 95, "subsampling": 0, "progressive": True}),
        ("PNG", {}),
        ("WEBP", {"lossless": True}),
        ("WEBP", {"quality": 95}),
        ("GIF", {}),
        ("TIFF", {}),
        ("TIFF", {"compression": "tiff_lzw"}),
        ("TIFF", {"compression": "tiff_deflate"}),
        ("TIFF", {"compression": "jpeg", "quality": 95}),
        ("BMP", {}),
        ("AVIF", {"quality": 95}),
    ],
)
def test_every_format_becomes_the_same_array(name: str, options: dict[str, Any]) -> None:
    """Height × width × 3, BGR, contiguous, eight bits, the colours where they were."""
    array = decode(encoded(quarters(), name, **options), max_pixels=LIMIT)
    assert array.shape == (32, 64, 3)
    assert array.dtype == np.uint8
    assert array.flags.c_contiguous
    assert close(corners(array), [RED, GREEN, BLUE, WHITE], 60 if "jpeg" in options.values() else 12)


@pytest.mark.parametrize("mode", ["P", "CMYK", "YCbCr", "RGBA", "RGBX"])
def test_colour_modes_keep_their_colours(mode: str) -> None:
    """A palette, printing colours, video colours and a full alpha channel all end up as RGB."""
    name = {"P": "PNG", "CMYK": "JPEG", "YCbCr": "TIFF", "RGBA": "PNG", "RGBX": "TIFF"}[mode]
    options = {"quality": 100, "subsampling": 0} if name == "JPEG" else {}
    array = decode(encoded(quarters().convert(mode), name, **options), max_pixels=LIMIT)
    assert close(corners(array), [RED, GREEN, BLUE, WHITE])


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("name", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_exif_orientation_is_applied(name: str, orientation: int) -> None:
    """Whatever way the camera was held, the array is the scene as it was."""
    scene = np.asarray(quarters((48, 48)))
    # How each orientation stores the scene (EXIF 2.32, tag 0x0112).
    stored = {
        1: scene,
        2: scene[:, ::-1],
        3: scene[::-1, ::-1],
        4: scene[::-1],
        5: scene.transpose(1, 0, 2),
        6: np.rot90(scene, 1),
        7: scene[::-1, ::-1].transpose(1, 0, 2),
        8: np.rot90(scene, -1),
    }[orientation]
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    lossless = {"lossless": True} if name == "WEBP" else {"quality": 95} if name == "JPEG" else {}
    data = encoded(Image.fromarray(np.ascontiguousarray(stored)), name, exif=exif, **lossless)
    assert close(corners(decode(data, max_pixels=LIMIT)), [RED, GREEN, BLUE, WHITE])


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")  # pytest's own filters come before ours
def test_broken_exif_does_not_make_an_image_unreadable() -> None:
    """Orientation is a service; without it the pixels are as stored."""
    data = encoded(quarters(), "JPEG", quality=95, subsampling=0, exif=b"Exif\0\0II*\0\xff\xff\xff\xff")
    assert close(corners(decode(data, max_pixels=LIMIT)), [RED, GREEN, BLUE, WHITE])


@pytest.mark.parametrize("name", ["PNG", "WEBP", "TIFF", "AVIF"])
@pytest.mark.parametrize(("ink", "ground"), [(20, 255), (235, 0)])
def test_transparency_is_laid_over_what_the_ink_contrasts_with(name: str, ink: int, ground: int) -> None:
    """Dark ink on nothing gets white behind it, light ink black; an engine would drop alpha and see one colour."""
    image = Image.new("RGBA", (40, 40), (ink, ink, ink, 0))
    image.paste((ink, ink, ink, 255), (10, 10, 30, 30))
    array = decode(encoded(image, name, **({"lossless": True} if name == "WEBP" else {})), max_pixels=LIMIT)
    assert abs(int(array[2, 2, 0]) - ground) < 8
    assert abs(int(array[20, 20, 0]) - ink) < 8


def test_transparency_of_grey_palette_and_key_colour_counts_too() -> None:
    """Alpha hides in LA, in a palette's transparent entry and in PNG's one transparent colour."""
    grey = Image.new("LA", (40, 40), (0, 0))
    grey.paste((0, 255), (10, 10, 30, 30))
    palette = Image.new("P", (40, 40), 0)
    palette.putpalette([0, 0, 0, 10, 10, 10])
    palette.paste(1, (10, 10, 30, 30))
    keyed = Image.new("RGB", (40, 40), (1, 2, 3))
    keyed.paste((20, 20, 20), (10, 10, 30, 30))
    files = (encoded(grey), encoded(palette, "GIF", transparency=0), encoded(keyed, transparency=(1, 2, 3)))
    for data in files:
        array = decode(data, max_pixels=LIMIT)
        assert array[2, 2].tolist() == [255, 255, 255]
        assert array[20, 20].max() <= 20


def test_an_image_with_nothing_visible_is_white() -> None:
    """No ink to contrast with: no text, no crash."""
    assert decode(encoded(Image.new("RGBA", (20, 20), (9, 9, 9, 0))), max_pixels=LIMIT).min() == 255


def test_half_transparent_ink_is_mixed_with_the_ground() -> None:
    """A watermark keeps its strength."""
    image = Image.new("RGBA", (20, 20), (0, 0, 0, 128))
    assert abs(int(decode(encoded(image), max_pixels=LIMIT)[5, 5, 0]) - 127) <= 1


@pytest.mark.parametrize("levels", [(0, 4095), (0, 65_535), (30_000, 31_000)])
def test_sixteen_bit_grey_is_stretched_to_eight(levels: tuple[int, int]) -> None:
    """A scan in 16-bit words is legible however few of the bits it uses."""
    values = np.full((30, 40), levels[1], np.uint16)
    values[10:20, 10:30] = levels[0]
    for name in ("PNG", "TIFF"):
        array = decode(encoded(Image.fromarray(values), name), max_pixels=LIMIT)
        assert array.shape == (30, 40, 3)
        assert (array[0, 0, 0], array[15, 15, 0]) == (255, 0)


@pytest.mark.parametrize("kind", [np.int32, np.float32])
def test_numbers_instead_of_colours_are_stretched_too(kind: type[np.generic]) -> None:
    """TIFF may hold 32-bit integers and floating point, infinities included."""
    values = np.linspace(-3, 1000, 1200).reshape(30, 40).astype(kind)
    array = decode(encoded(Image.fromarray(values), "TIFF"), max_pixels=LIMIT)
    assert (array[0, 0, 0], array[-1, -1, 0]) == (0, 255)


def test_one_bit_and_eight_bit_grey() -> None:
    """Fax and scan."""
    stripes = Image.new("L", (16, 16), 255)
    stripes.paste(0, (0, 0, 8, 16))
    for image in (stripes, stripes.convert("1")):
        array = decode(encoded(image), max_pixels=LIMIT)
        assert (array[8, 2].tolist(), array[8, 12].tolist()) == ([0, 0, 0], [255, 255, 255])


@pytest.mark.parametrize("name", ["GIF", "PNG", "WEBP", "TIFF", "AVIF"])
def test_of_several_frames_the_first_is_read(name: str) -> None:
    """An animation shows how it begins."""
    options = {"lossless": True} if name == "WEBP" else {}
    data = encoded(quarters(), name, save_all=True, append_images=[Image.new("RGB", (64, 32))], **options)
    assert close(corners(decode(data, max_pixels=LIMIT)), [RED, GREEN, BLUE, WHITE], 30)


NOISE = Image.effect_noise((300, 200), 80).convert("RGB")


@pytest.mark.parametrize("share", [0.05, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("name", ["JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP", "AVIF"])
def test_a_truncated_file_is_refused_wherever_it_ends(name: str, share: float) -> None:
    """Half an image must not pass for a whole one: what is missing may be what matters."""
    whole = encoded(NOISE, name)
    with pytest.raises(PayloadRejected, match="damaged or cut short") as rejected:
        decode(whole[: int(len(whole) * share)], max_pixels=LIMIT)
    assert rejected.value.reason == "undecodable_image"


def test_truncated_files_are_refused_although_a_library_turned_leniency_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several packages set Pillow's module-wide switch when they are imported."""
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    whole = encoded(NOISE, "JPEG")
    with pytest.raises(PayloadRejected):
        decode(whole[: len(whole) // 2], max_pixels=LIMIT)


@pytest.mark.parametrize("place", ["data", "checksum", "end"])
def test_a_damaged_png_is_refused(place: str) -> None:
    """A wrong bit in the pixels, a wrong checksum or a missing end chunk: not the image that was sent."""
    png = bytearray(encoded(NOISE))
    data = png.index(b"IDAT")
    length = int.from_bytes(png[data - 4 : data], "big")
    if place == "data":
        png[data + 1000] ^= 0xFF
    elif place == "checksum":
        png[data + 4 + length] ^= 0xFF
    else:
        del png[-12:]
    with pytest.raises(PayloadRejected) as rejected:
        decode(bytes(png), max_pixels=LIMIT)
    assert rejected.value.reason == "undecodable_image"


@pytest.mark.parametrize("size", [(300, 200), (301, 201), (8, 9)])
@pytest.mark.parametrize("mode", ["RGB", "L", "P", "RGBA", "1", "I;16", "LA", "interlaced RGB", "interlaced L"])
def test_a_png_whose_pixels_end_too_early_is_refused(mode: str, size: tuple[int, int]) -> None:
    """Every checksum is right and the end is there, but pixels are not. Whole rows Pillow leaves black in silence."""
    kind = mode.removeprefix("interlaced ")
    file_of = interlaced if mode != kind else encoded
    noise = Image.effect_noise(size, 80)
    image = Image.fromarray(np.asarray(noise).astype(np.uint16)) if kind == "I;16" else noise.convert(kind)
    for picture in (image, Image.new(image.mode, size)):
        png = file_of(picture)
        assert np.array_equal(decode(png, max_pixels=LIMIT), decode(encoded(picture), max_pixels=LIMIT))
        for lost in (1, row_of(png) - 1, row_of(png), 3 * row_of(png), len(png) * 10_000):
            with pytest.raises(PayloadRejected, match="damaged or cut short") as rejected:
                decode(with_pixels_cut(png, lost), max_pixels=LIMIT)
            assert rejected.value.reason == "undecodable_image"
        with pytest.raises(PayloadRejected, match="rows are missing"):
            decode(with_pixels_cut(png, row_of(png)), max_pixels=LIMIT)


@pytest.mark.parametrize("tail", [b"\n", b"\r\n", b"\0" * 13, b"\0" * 4096])
def test_what_stands_behind_the_end_of_a_png_harms_nobody(tail: bytes) -> None:
    """Some senders add a line break or padding; a dark page has its rows counted, which stops at the end."""
    for picture in (Image.new("RGB", (300, 200)), Image.effect_noise((300, 200), 80)):
        png = encoded(picture)
        assert np.array_equal(decode(png + tail, max_pixels=LIMIT), decode(png, max_pixels=LIMIT))


def test_a_png_that_does_not_begin_with_its_header_is_refused() -> None:
    """Its rows cannot be counted; Pillow reads it."""
    png = encoded(Image.new("RGB", (300, 200)))
    text = b"tEXtkey\0value"
    chunk = (len(text) - 4).to_bytes(4) + text + zlib.crc32(text).to_bytes(4)
    with pytest.raises(PayloadRejected, match="damaged or cut short"):
        decode(png[:8] + chunk + png[8:], max_pixels=LIMIT)


@pytest.mark.parametrize("share", [0.05, 0.5, 0.9, 0.99])
@pytest.mark.parametrize(
    ("mode", "options"),
    [
        ("RGB", {}),
        ("RGB", {"progressive": True}),
        ("RGB", {"restart_marker_rows": 1}),
        ("RGB", {"optimize": True, "subsampling": 0}),
        ("L", {}),
        ("CMYK", {}),
    ],
)
def test_a_jpeg_that_was_cut_and_then_ended_properly_is_refused(
    mode: str, options: dict[str, Any], share: float
) -> None:
    """Pillow, OpenCV and browsers show the rest in grey; OpenCV 4.10 in rows of the image before (issue 26488)."""
    whole = encoded(NOISE.convert(mode), "JPEG", quality=85, **options)
    decode(whole, max_pixels=LIMIT)
    with pytest.raises(PayloadRejected, match=r"damaged or cut short \(.*premature end of data segment\)") as rejected:
        decode(whole[: int(len(whole) * share)] + b"\xff\xd9", max_pixels=LIMIT)
    assert rejected.value.reason == "undecodable_image"


def test_a_jpeg_whose_data_are_damaged_is_refused() -> None:
    """A restart marker that is out of turn: a part in between is lost."""
    whole = encoded(NOISE, "JPEG", quality=85, restart_marker_rows=1)
    first, second, third = (whole.index(b"\xff" + bytes([0xD0 + number])) for number in range(3))
    with pytest.raises(PayloadRejected, match="instead of RST"):
        decode(whole[:second] + whole[third:], max_pixels=LIMIT)
    assert first < second


def test_a_jpeg_with_stray_bytes_that_harm_no_pixel_is_read() -> None:
    """Cameras and editors leave some before the end, and behind it."""
    whole = encoded(NOISE, "JPEG", quality=85, restart_marker_rows=1)
    stray = whole[:-2] + b"\0\0\0" + whole[-2:] + b"behind the end"
    assert np.array_equal(decode(stray, max_pixels=LIMIT), decode(whole, max_pixels=LIMIT))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "unsupported_format"),
        (b"not an image", "unsupported_format"),
        (b"<html>not found</html>", "unsupported_format"),
        (b"%PDF-1.4", "unsupported_format"),
        (encoded(NOISE, "ICO"), "unsupported_format"),
        (b"\xff\xd8\xff\xe0", "undecodable_image"),
        (png_header(20_000, 20_000), "too_many_pixels"),
        (webp_header(16_383, 16_383), "too_many_pixels"),
        (encoded(Image.new("1", (12_000, 12_000)), "PNG"), "too_many_pixels"),
        (encoded(Image.new("RGB", (4000, 3))), "image_too_small"),
        (png_header(300, 200), "undecodable_image"),
    ],
    ids=beginning,
)
def test_what_is_no_image_for_us_has_a_stable_reason(data: bytes, reason: str) -> None:
    """Each is known within 50 ms, before memory for its pixels is taken."""

    def refuse() -> str:
        with pytest.raises(PayloadRejected) as rejected:
            decode(data, max_pixels=LIMIT)
        assert type(rejected.value.reason) is str
        return rejected.value.reason

    assert refuse() == reason
    assert quickest(refuse) < 0.05


def test_running_out_of_memory_is_not_the_images_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stays a MemoryError, so that the task is tried again."""

    def no_memory(_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(ImageFile.ImageFile, "load_prepare", no_memory)
    with pytest.raises(MemoryError):
        decode(encoded(NOISE, "JPEG"), max_pixels=LIMIT)
