"""What a task is estimated to cost, in standard tasks: one text of ordinary length, or one megapixel of OCR.

Shares are of work, not of counts, so the estimate decides how far a device's turn reaches. It need only be right in
proportion: a lane's measured service time corrects its scale.
"""

from __future__ import annotations

from typing import Final

_ORDINARY_TEXT: Final = 2000
"""Characters. Matching is linear in the text, but below this the fixed part (fetch, start, store) is what it costs."""
_SMALLEST_IMAGE: Final = 0.25
"""Megapixels. Detection scales every image to about this size at least before it looks for lines."""
_ORDINARY_PAYLOAD: Final = 200_000
"""Bytes: about a page of a scanned document."""


def text_cost(text: str) -> float:
    """Return the cost of a text: one, or its length in ordinary texts when it is longer."""
    return max(1.0, len(text) / _ORDINARY_TEXT)


def image_cost(width: int, height: int) -> float:
    """Return the cost of an image: its megapixels. Of several frames only the first is read."""
    return max(_SMALLEST_IMAGE, width * height / 1e6)


def payload_cost(size: int) -> float:
    """Return the cost of a payload of ``size`` bytes that only its engine understands."""
    return max(1.0, size / _ORDINARY_PAYLOAD)
