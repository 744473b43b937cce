"""What an engine is to us: the seam for engines of others (docs/engines.md shows how to write one)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from detectsched.detection import Line
from detectsched.settings import OcrSettings


@dataclass(frozen=True, slots=True)
class EngineContext:
    """What an engine is told when it is made.

    ``slots``: how many engine processes share this machine's cores; ``max_pixels``: the largest image that may be
    decoded, width × height; ``ocr``: how the built-in OCR engine is set up here.
    """

    slots: int
    max_pixels: int
    ocr: OcrSettings


@dataclass(frozen=True, slots=True)
class Reading:
    """What an engine read: lines in reading order, with their boxes in a plane of ``width`` × ``height``."""

    lines: tuple[Line, ...]
    width: int
    height: int


class EnginePlugin(Protocol):
    """An engine, alone in a process of its own and asked one payload at a time.

    It may crash, hang or leak: its process is killed and replaced. What it prints goes to the log.
    """

    @property
    def version(self) -> str:
        """Two engines that may read differently differ here."""

    def read(self, payload: bytes) -> str | Reading:
        """Return what stands in a payload.

        Raises:
            PayloadRejected: it can never be read; any other exception means that another try may succeed.
        """


class EngineFactory(Protocol):
    """What an entry point of the group names."""

    def __call__(self, context: EngineContext) -> EnginePlugin:
        """Make the engine, once per process.

        Raises:
            ConfigurationError: it cannot work here; the message says what to change.
        """
