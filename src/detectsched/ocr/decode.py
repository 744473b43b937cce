"""The one strict decode: a file of any format that is read becomes the array that every engine understands.

Engines never see a path, a URL or the file's bytes: they would decode leniently (half a JPEG as half a page, and with
the OpenCV that PaddleX pins with rows of an earlier image below it), follow links, and drop alpha.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFile, ImageOps, ImageStat

from detectsched.errors import PayloadRejected
from detectsched.ocr.formats import BadImage, Problem, check_size, format_of, open_image
from detectsched.ocr.frames import chosen_frames, count_frames, is_whole_gif
from detectsched.ocr.jpeg import what_is_lost
from detectsched.ocr.png import lacks_rows
from detectsched.settings import FramePolicy

_MIDDLE_GREY: Final = 128
_DEEP_MODES: Final = ("I", "F")


def decode(data: bytes, *, max_pixels: int) -> NDArray[np.uint8]:
    """Decode the first frame; arguments, result and errors are those of `decode_frames`."""
    return next(decode_frames(data, max_pixels=max_pixels))


def decode_frames(
    data: bytes, *, max_pixels: int, policy: FramePolicy = FramePolicy.FIRST, most: int = 1
) -> Iterator[NDArray[np.uint8]]:
    """Decode the frames or pages that are to be read; one that looks like the one before it is left out.

    EXIF orientation is applied; transparency is laid over white or black, whichever the visible pixels contrast with;
    more than eight bits a channel are stretched to eight.

    Args:
        data: the whole file.
        max_pixels: most pixels (width times height) that are decoded.
        policy: which frames are wanted.
        most: how many of them, at most.

    Yields:
        Height × width × 3, BGR, contiguous, of each as it is meant to be seen.

    Raises:
        PayloadRejected: with a `Problem` as its reason. Running out of memory stays a MemoryError: that may work later.
    """
    before: NDArray[np.uint8] | None = None
    try:
        image = _open_whole(data, max_pixels)
        # Behind a phone's photo there may be a preview, which shows the same.
        count = 1 if format_of(image) == "JPEG" else count_frames(image, data)
        pixels = image.width * image.height
        for number in chosen_frames(count, pixels, policy=policy, most=most, max_pixels=max_pixels):
            loaded = _load(image, number, max_pixels)
            if number == 0 and format_of(image) == "PNG":
                _guarded(partial(_require_rows, loaded, data))
            rgb = _flatten(_upright(loaded))
            frame = np.ascontiguousarray(np.asarray(rgb)[:, :, ::-1])
            if before is None or not np.array_equal(frame, before):
                yield frame
            before = frame
    except BadImage as bad:
        raise PayloadRejected(bad.problem.value, bad.detail) from bad


def _open_whole(data: bytes, max_pixels: int) -> Image.Image:
    # A module-wide switch that other libraries are known to turn on; then half an image would pass for a whole one.
    ImageFile.LOAD_TRUNCATED_IMAGES = False
    image = open_image(data, max_pixels)
    if format_of(image) == "PNG":
        # Only this checks the checksum of every chunk and that the end is there; it uses the image up.
        _guarded(image.verify)
        return open_image(data, max_pixels)
    if format_of(image) == "GIF" and not is_whole_gif(data):
        raise _damaged("the end is missing")
    if format_of(image) == "JPEG" and (lost := what_is_lost(data)):
        raise _damaged(lost)
    return image


def _require_rows(image: Image.Image, data: bytes) -> None:
    if lacks_rows(image, data):
        raise _damaged("rows are missing")


def _load(image: Image.Image, number: int, max_pixels: int) -> Image.Image:
    """Return an image at one of its frames, decoded."""
    if number:
        _guarded(lambda: image.seek(number))
        # Pages of a file may differ in size.
        check_size(image, max_pixels)
    _guarded(image.load)
    return image


def _guarded(step: Callable[[], object]) -> None:
    try:
        step()
    except (BadImage, MemoryError):
        raise
    except Exception as error:
        # Pillow's plugins raise whatever their parsers run into: OSError, SyntaxError, struct.error, IndexError, ...
        raise _damaged(str(error)) from error


def _damaged(why: str) -> BadImage:
    return BadImage(Problem.UNDECODABLE_IMAGE, f"the image is damaged or cut short ({why}): send the whole file again")


def _upright(image: Image.Image) -> Image.Image:
    try:
        return ImageOps.exif_transpose(image)
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - broken EXIF data do not make the pixels unreadable
        return image


def _flatten(image: Image.Image) -> Image.Image:
    """Return an RGB image of any mode that Pillow decodes to."""
    if image.mode.startswith(_DEEP_MODES):
        image = _stretched(image)
    try:
        if image.has_transparency_data:
            return _over_contrast(image.convert("RGBA"))
        return image.convert("RGB")
    except ValueError as error:
        raise BadImage(
            Problem.UNSUPPORTED_FORMAT, f"the colour mode {image.mode} is not read: convert the image to RGB"
        ) from error


def _stretched(image: Image.Image) -> Image.Image:
    """Map a deep grey image's darkest and lightest values to 0 and 255.

    Cutting off the low bits instead would turn a 12-bit scan in 16-bit words black.
    """
    values = np.nan_to_num(np.asarray(image, dtype=np.float32))
    low, high = float(values.min()), float(values.max())
    scale = 255.0 / (high - low) if high > low else 0.0
    return Image.fromarray(((values - low) * scale).astype(np.uint8))


def _over_contrast(image: Image.Image) -> Image.Image:
    """Lay an RGBA image over the one of white and black that its visible pixels differ from more."""
    alpha = image.getchannel("A")
    if alpha.getextrema() == (255, 255):
        return image.convert("RGB")
    visible = alpha.point(lambda value: 255 if value else 0)
    seen = ImageStat.Stat(image.convert("L"), visible)
    light = bool(seen.count[0]) and seen.mean[0] >= _MIDDLE_GREY
    ground = Image.new("RGB", image.size, "black" if light else "white")
    ground.paste(image.convert("RGB"), mask=alpha)
    return ground
