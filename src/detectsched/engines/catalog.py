"""Which engines this installation has; nothing is loaded to find that out."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Final

from detectsched.task import ENGINE_OCR

GROUP: Final = "detectsched.engines"


def plugins() -> dict[str, EntryPoint]:
    """Return the engines that plug in, by name."""
    return {point.name: point for point in entry_points(group=GROUP) if point.name != ENGINE_OCR}


def engine_names() -> tuple[str, ...]:
    """Return the names of all engines, the built-in one first."""
    return (ENGINE_OCR, *sorted(plugins()))
