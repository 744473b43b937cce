"""Images with a known text, drawn with the Noto CJK font that a package brings."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Iterable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from detectsched.detection import Line

CHINESE = "请输入密码继续操作"
ENGLISH = "Forbidden goods 2024"
MIXED = "联系微信 abc123 购买"


def font(size: int) -> ImageFont.FreeTypeFont:
    """Return the font at a size in pixels."""
    spec = importlib.util.find_spec("cvttf_NotoSansCJK_Regular")
    assert spec is not None
    assert spec.origin is not None
    return ImageFont.truetype(Path(spec.origin).with_name("NotoSansCJKtc-Regular.otf"), size)


def page(
    lines: Sequence[str],
    *,
    width: int = 720,
    height: int = 0,
    size: int = 36,
    step: int = 80,
    ink: Any = "black",
    ground: Any = "white",
    mode: str = "RGB",
) -> Image.Image:
    """Write lines below each other, the first 20 pixels from the top, each ``step`` further down."""
    image = Image.new(mode, (width, height or 20 + step * len(lines)), ground)
    draw = ImageDraw.Draw(image)
    for number, line in enumerate(lines):
        draw.text((30, 20 + step * number), line, font=font(size), fill=ink)
    return image


def encoded(image: Image.Image, name: str = "PNG", **options: Any) -> bytes:
    """Return an image as a file."""
    file = BytesIO()
    image.save(file, name, **options)
    return file.getvalue()


def recall(truth: Iterable[str], lines: Iterable[Line]) -> float:
    """Return the share of the drawn characters that were read, blanks aside (as a multiset)."""
    drawn = Counter("".join(truth).replace(" ", ""))
    read = Counter("".join(line.text for line in lines).replace(" ", ""))
    return (drawn & read).total() / drawn.total()
