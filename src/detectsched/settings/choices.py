"""The words that a setting may be."""

from __future__ import annotations

from enum import StrEnum


class Policy(StrEnum):
    """In which order queues are served."""

    FAIR = "fair"
    """Start-time fair queueing: equal shares of work per tenant, then per queue."""
    AGING = "aging"
    """The original's formula: the queue whose head has waited longest."""
    FIFO = "fifo"
    """Global order of arrival, for comparison."""


class Order(StrEnum):
    """In which order the tasks of one device queue are taken (object queues are always FIFO)."""

    FIFO = "fifo"
    LIFO = "lifo"


class NoRunner(StrEnum):
    """What happens to a lane's queues while it has no healthy runner."""

    DEFER = "defer"
    """They back off; past max_defers the head is a dead letter."""
    CPU_FALLBACK = "cpu_fallback"
    """A lane for GPUs is served by CPU runners meanwhile; without any, as defer."""
    DEAD_LETTER = "dead_letter"
    """Their heads are dead letters at once."""


class EngineName(StrEnum):
    """The OCR engines that are built in."""

    AUTO = "auto"
    """What the machine has: rapidocr where it is installed, else paddle."""
    RAPIDOCR = "rapidocr"
    PADDLE = "paddle"


class PaddleRuntime(StrEnum):
    """What runs PaddleOCR's models."""

    AUTO = "auto"
    """ONNX Runtime where it is installed and both model directories hold inference.onnx, else paddlepaddle."""
    PADDLE = "paddle"
    ONNXRUNTIME = "onnxruntime"


class FramePolicy(StrEnum):
    """Which frames of an animation, or pages of a file with several, are read."""

    FIRST = "first"
    SAMPLE = "sample"
    """All if there are no more than max_frames; else as many, evenly spread, the first and the last among them."""
    ALL = "all"
    """All; a file with more than max_frames is refused."""


class LogFormat(StrEnum):
    """How log lines look."""

    AUTO = "auto"
    """Console on a terminal, JSON elsewhere."""
    CONSOLE = "console"
    JSON = "json"
