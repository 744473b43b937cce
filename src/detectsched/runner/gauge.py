"""One smoothed load with two thresholds."""

from __future__ import annotations

from typing import Final

_SMOOTHING: Final = 0.3
"""Weight of the newest sample: at one a second a load must last for some seconds before it counts."""
_RELEASE: Final = 10.0
"""Percentage points below the watermark at which a pressed runner takes work again."""


class Gauge:
    """A value near the watermark does not make it flap: it is released well below only."""

    def __init__(self, name: str, high: float) -> None:
        self.name = name
        self.high = high
        self.value = 0.0
        self.pressed = False

    def update(self, sample: float | None) -> None:
        """Take another sample, in percent; a load that is unknown (None) presses nobody, and is not remembered."""
        self.value = 0.0 if sample is None else _SMOOTHING * sample + (1 - _SMOOTHING) * self.value
        self.pressed = self.value > (self.high - _RELEASE if self.pressed else self.high)

    def __str__(self) -> str:
        """Say what is wrong with it."""
        return f"{self.name} {self.value:.1f} % > {self.high:.0f} %"
