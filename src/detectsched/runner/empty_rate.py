"""Notices when images suddenly come back without text: a broken engine raises nothing, it reads nothing.

PaddleOCR issue 13145: with a full GPU every image was "clean" from some moment on. A fleet's share of images without
text changes slowly, so a jump is looked for, not a level. Where more than 60 % usually have none, it cannot be told.
"""

from __future__ import annotations

from collections import deque
from typing import Final

_LATELY: Final = 50
"""Images whose share is compared."""
_BEFORE: Final = 1000
"""With that of so many images before them."""
_LEAST_BEFORE: Final = 200
"""Fewer say too little about what is usual here."""
_JUMP: Final = 0.4
"""How much larger the share must be; by chance it is once in 10⁸ times (binomial, with a usual share of 0.3 or 0.5)."""


class EmptyRate:
    """Fed with each image that was read; `lately` and `before` are shares, 0 to 1."""

    def __init__(self) -> None:
        self._recent: deque[bool] = deque()
        self._old: deque[bool] = deque(maxlen=_BEFORE)
        self.alarmed = False
        """Whether far more than usual is empty at present."""

    @property
    def lately(self) -> float:
        """The share of the last images that had no text."""
        return sum(self._recent) / len(self._recent) if self._recent else 0.0

    @property
    def before(self) -> float:
        """The share that is usual."""
        return sum(self._old) / len(self._old) if self._old else 0.0

    def add(self, empty: bool) -> bool:
        """Take note of an image; return whether the alarm goes off with it.

        It goes off once a jump; when the fleet has really changed, that becomes the usual within a thousand images.
        """
        self._recent.append(empty)
        if len(self._recent) > _LATELY:
            self._old.append(self._recent.popleft())
        # Half a jump ends it: what is usual changes with every image.
        jump = _JUMP / 2 if self.alarmed else _JUMP
        known = len(self._recent) == _LATELY and len(self._old) >= _LEAST_BEFORE
        jumped = known and self.lately - self.before >= jump
        goes_off, self.alarmed = jumped and not self.alarmed, jumped
        return goes_off
