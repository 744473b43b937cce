"""An engine reads an image that we drew before it gets any other.

It loads the models into memory, and it finds the engine that loads well and reads nothing: a mixed-up OpenCV, a oneDNN
that fails on every call, a GPU without memory.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from detectsched.errors import ConfigurationError
from detectsched.ocr.engine import Engine

_TEXT: Final = "8421 ready"
_MUST_READ: Final = "8421"


def require_canary(engine: Engine) -> None:
    """Have the engine read the test image.

    Raises:
        ConfigurationError: it read something else.
    """
    drawing = Image.new("RGB", (480, 120), "white")
    ImageDraw.Draw(drawing).text((40, 30), _TEXT, font=ImageFont.load_default(size=44), fill="black")
    lines = engine.read(np.ascontiguousarray(np.asarray(drawing)[:, :, ::-1]))
    read = " ".join(line.text for line in lines)
    if _MUST_READ not in read:
        raise ConfigurationError(
            f"{engine.name} {engine.version} read {read!r} on a test image that says {_TEXT!r}: its installation is "
            "broken; reinstall it in a fresh environment"
        )
