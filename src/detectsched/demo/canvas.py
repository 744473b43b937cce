"""A surface to draw phone screens on: anti-aliased shapes and Chinese and English text."""

from __future__ import annotations

import importlib.util
import io
from functools import cache
from pathlib import Path
from typing import Final, Literal

from PIL import Image, ImageDraw, ImageFont, features

from detectsched.errors import ConfigurationError

Color = tuple[int, int, int]
Format = Literal["PNG", "JPEG", "WEBP"]

_FONT_PACKAGE: Final = "cvttf_NotoSansCJK_Regular"
_FONT_FILE: Final = "NotoSansCJKtc-Regular.otf"
# Shapes are drawn this much larger and reduced, for Pillow draws them without anti-aliasing.
_OVERSAMPLING: Final = 2
# Characters that may not begin a line.
_CLOSING: Final = "，。！？：；、）》”…,.!?:;)"


def rgb(code: str) -> Color:
    """Return the colour of ``RRGGBB``."""
    value = int(code, 16)
    return value >> 16, value >> 8 & 255, value & 255


@cache
def _font(size: int) -> ImageFont.FreeTypeFont:
    spec = importlib.util.find_spec(_FONT_PACKAGE)
    if spec is None or spec.origin is None:
        raise ConfigurationError("the demo draws with a font that is not installed: pip install 'detectsched[demo]'")
    return ImageFont.truetype(Path(spec.origin).with_name(_FONT_FILE), size)


@cache
def _language() -> str | None:
    """Return the language whose glyph forms are wanted; None where Pillow cannot choose them."""
    return "zh-Hans" if features.check("raqm") else None


class Canvas:
    """An image of ``width`` by ``height`` units, each ``scale`` pixels of the result; all measures are in units."""

    def __init__(self, width: int, height: int, ground: Color, scale: float = 1.0) -> None:
        self.width = width
        self.height = height
        self._factor = scale * _OVERSAMPLING
        self._image = Image.new("RGB", (self._pixels(width), self._pixels(height)), ground)
        self._draw = ImageDraw.Draw(self._image)

    def rectangle(self, left: float, top: float, right: float, bottom: float, fill: Color, radius: float = 0) -> None:
        """Fill a rectangle, its corners rounded by ``radius``."""
        self._draw.rounded_rectangle(self._all(left, top, right - 0.5, bottom - 0.5), self._pixels(radius), fill)

    def frame(
        self, left: float, top: float, right: float, bottom: float, ink: Color, radius: float = 0, width: float = 2
    ) -> None:
        """Draw the outline of a rectangle."""
        self._draw.rounded_rectangle(
            self._all(left, top, right, bottom), self._pixels(radius), outline=ink, width=self._pixels(width)
        )

    def circle(self, x: float, y: float, radius: float, fill: Color) -> None:
        """Fill a circle around a point."""
        self._draw.ellipse(self._all(x - radius, y - radius, x + radius, y + radius), fill)

    def ring(self, x: float, y: float, radius: float, ink: Color, width: float = 2.5) -> None:
        """Draw the outline of a circle around a point."""
        box = self._all(x - radius, y - radius, x + radius, y + radius)
        self._draw.ellipse(box, outline=ink, width=self._pixels(width))

    def arc(self, x: float, y: float, radius: float, start: float, end: float, ink: Color, width: float = 2.5) -> None:
        """Draw a part of a ring, from ``start`` to ``end`` degrees clockwise from three o'clock."""
        box = self._all(x - radius, y - radius, x + radius, y + radius)
        self._draw.arc(box, start, end, ink, self._pixels(width))

    def line(self, points: list[tuple[float, float]], ink: Color, width: float = 2) -> None:
        """Draw a line through points."""
        flat = [coordinate * self._factor for point in points for coordinate in point]
        self._draw.line(flat, ink, self._pixels(width), joint="curve")

    def polygon(self, points: list[tuple[float, float]], fill: Color) -> None:
        """Fill a polygon."""
        self._draw.polygon([coordinate * self._factor for point in points for coordinate in point], fill)

    def gradient(self, top: float, bottom: float, above: Color, below: Color) -> None:
        """Fill a band over the whole width, shading from one colour into another."""
        height = self._pixels(bottom) - self._pixels(top)
        for row in range(height):
            share = row / max(1, height - 1)
            shade = tuple(round(a + (b - a) * share) for a, b in zip(above, below, strict=True))
            y = self._pixels(top) + row
            self._draw.line((0, y, self._image.width, y), shade)

    def text(
        self, x: float, y: float, text: str, size: float, ink: Color, *, bold: bool = False, anchor: str = "lm"
    ) -> None:
        """Write one line; ``anchor`` as Pillow has it, by default the middle of its left edge."""
        self._draw.text(
            (x * self._factor, y * self._factor),
            text,
            ink,
            _font(self._pixels(size)),
            anchor=anchor,
            stroke_width=self._pixels(size) / 45 if bold else 0,
            language=_language(),
        )

    def measure(self, text: str, size: float) -> float:
        """Return the width of one line of text."""
        return _font(self._pixels(size)).getlength(text, language=_language()) / self._factor

    def wrap(self, text: str, size: float, width: float) -> list[str]:
        """Break a text into lines of at most ``width``: between Latin words, anywhere in Chinese, at line breaks."""
        lines: list[str] = []
        for paragraph in text.split("\n"):
            line = ""
            for piece in _pieces(paragraph):
                if line and self.measure((line + piece).rstrip(), size) > width:
                    lines.append(line.rstrip())
                    line = piece.lstrip()
                else:
                    line += piece
            lines.append(line.rstrip())
        return lines

    def encoded(self, image_format: Format, height: int | None = None) -> bytes:
        """Return the image, cut to ``height`` units if given, as a file; equal drawings give equal bytes."""
        image = self._image
        if height is not None:
            image = image.crop((0, 0, image.width, self._pixels(height)))
        image = image.reduce(_OVERSAMPLING)
        file = io.BytesIO()
        match image_format:
            case "PNG":
                image.save(file, "PNG", optimize=True)
            case "JPEG":
                image.save(file, "JPEG", quality=88, optimize=True)
            case "WEBP":
                image.save(file, "WEBP", quality=86, method=4)
        return file.getvalue()

    def _pixels(self, units: float) -> int:
        return round(units * self._factor)

    def _all(self, *units: float) -> tuple[float, float, float, float]:
        left, top, right, bottom = (unit * self._factor for unit in units)
        return left, top, right, bottom


def _pieces(text: str) -> list[str]:
    """Return the parts between which a line may break."""
    pieces: list[str] = []
    for character in text:
        latin = character.isascii() and character != " "
        glued = pieces and (
            character in _CLOSING
            or character == " "
            or (latin and pieces[-1][-1].isascii() and not pieces[-1].endswith(" "))
        )
        if glued:
            pieces[-1] += character
        else:
            pieces.append(character)
    return pieces
