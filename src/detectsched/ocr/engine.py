"""The seam between the rest of the system and the OCR engines, and the choice of one.

Engines are imported here late, on purpose: they take a second and hundreds of megabytes, and only the engine's own
process (`child`) builds one.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Final, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from detectsched.detection import Line
from detectsched.errors import ConfigurationError
from detectsched.ocr.cores import engine_threads
from detectsched.ocr.opencv import check_opencv, guard_opencv, installed_opencv
from detectsched.settings import EngineName, OcrSettings

_CPU_BATCH: Final = 1
"""Lines per recognition call on a CPU; in a batch every line is padded to the widest (1 is 15-45 % faster than 6)."""
_GPU_BATCH: Final = 4
"""The original's setting for a GPU."""

_EXTRAS: Final = {EngineName.RAPIDOCR: "ocr", EngineName.PADDLE: "paddle"}
_MODULES: Final = {EngineName.RAPIDOCR: ("rapidocr", "onnxruntime"), EngineName.PADDLE: ("paddleocr",)}


class AnswerCountError(RuntimeError):
    """An engine gave more or fewer answers than it was asked: whose they are is unknown, so none can be used."""


class Engine(Protocol):
    """Reads images; not thread-safe, so one process holds one and asks it one image at a time."""

    @property
    def name(self) -> str:
        """Which engine."""

    @property
    def version(self) -> str:
        """The engine's and the models' versions: two engines that may read differently differ here."""

    def read(self, image: NDArray[np.uint8], *, thrifty: bool = False) -> tuple[Line, ...]:
        """Read an image (height × width × 3, BGR, contiguous); lines in reading order, boxes in its pixels.

        ``thrifty``: with as little memory as it can do with, however long that takes.
        """


@runtime_checkable
class BatchEngine(Engine, Protocol):
    """An engine that reads several images at once, if that is any faster there."""

    def read_many(self, images: Sequence[NDArray[np.uint8]]) -> list[tuple[Line, ...]]:
        """Read several images as `read` would each; as many answers as images, in their order."""


def build_engine(settings: OcrSettings, ocr_slots: int) -> Engine:
    """Load the engine that the settings name; for ``auto`` the first of rapidocr and paddle that works here.

    Args:
        settings: of the engine processes.
        ocr_slots: how many engines share this machine's cores.

    Raises:
        ConfigurationError: it is not installed, its models are missing, or a GPU is wanted and none is usable.
    """
    wanted = (EngineName.RAPIDOCR, EngineName.PADDLE) if settings.engine is EngineName.AUTO else (settings.engine,)
    installed = [name for name in wanted if all(importlib.util.find_spec(module) for module in _MODULES[name])]
    if not installed:
        raise ConfigurationError(
            f"the OCR engine is not installed; pip install 'detectsched[{_EXTRAS[wanted[0]]}]'"
            f" (engine: {settings.engine})"
        )
    problems = []
    for name in installed:
        try:
            return _build(name, settings, ocr_slots)
        except ConfigurationError as error:
            problems.append(error.detail)
    raise ConfigurationError("; ".join(problems))


def _build(name: EngineName, settings: OcrSettings, ocr_slots: int) -> Engine:
    opencv = installed_opencv()
    check_opencv(name, opencv)
    import cv2  # noqa: PLC0415 - heavy, see above

    guard_opencv(name, opencv, cv2)
    threads = engine_threads(settings.threads, ocr_slots)
    batch = settings.recognition_batch or (_GPU_BATCH if settings.gpu else _CPU_BATCH)
    if name is EngineName.RAPIDOCR:
        from detectsched.ocr.rapid import RapidEngine  # noqa: PLC0415 - heavy, see above

        return RapidEngine(gpu=settings.gpu, threads=threads, recognition_batch=batch)
    from detectsched.ocr.paddle import PaddleEngine  # noqa: PLC0415 - heavy, see above

    return PaddleEngine(
        gpu=settings.gpu,
        threads=threads,
        recognition_batch=batch,
        runtime=settings.paddle_runtime,
        detection_model_dir=settings.detection_model_dir,
        recognition_model_dir=settings.recognition_model_dir,
    )
