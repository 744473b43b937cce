"""Images to be read by benchmarks."""

from __future__ import annotations

import io

from PIL import Image, ImageDraw, ImageFont


def screenshot(number: int) -> bytes:
    """Draw a page of text as large as a phone's screen, unlike every other: what was read is not read again."""
    image = Image.new("RGB", (720, 1280), "white")
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(size=32)
    for line in range(16):
        draw.text((40, 40 + 75 * line), f"image {number} line {line}: a message of some words", "black", font=font)
    out = io.BytesIO()
    image.save(out, "PNG", compress_level=1)
    return out.getvalue()
