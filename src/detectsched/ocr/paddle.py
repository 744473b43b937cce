"""PaddleOCR 3.x: its detection and recognition modules, with models from a local directory.

The two modules are used instead of PaddleOCR's pipeline: the pipeline searches the whole image at once (gigabytes for
a large one), answers a batch with fewer results than images when one is bad, and hides which line is whose.
"""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from detectsched.detection import Line
from detectsched.ocr.paddle_runtime import choose_runtime, find_model, prepare
from detectsched.ocr.reading import Image, read_lines, read_many_lines
from detectsched.ocr.tiles import Quad
from detectsched.settings import PaddleRuntime

# Read when paddlex is imported: without it, every start asks four model sites whether they are there.
os.environ["PADDLE_PDX_DISABLE_MODEL_SOURCE_CHECK"] = "True"

import cv2
from paddleocr import TextDetection, TextRecognition

_MIN_SCORE: Final = 0.0
"""The pipeline's own ``text_rec_score_thresh``."""
_DETECTION: Final[dict[str, Any]] = {
    # What PaddleOCR's pipeline uses (OCR.yaml of paddlex 3.7); the bare module would take the model's, which shrink
    # the image to 960 pixels.
    "limit_side_len": 64,
    "limit_type": "min",
    "thresh": 0.3,
    "box_thresh": 0.6,
    "unclip_ratio": 1.5,
}
_BUNDLED_DETECTION: Final = "PP-OCRv5_mobile_det"
_BUNDLED_RECOGNITION: Final = "PP-OCRv5_mobile_rec"


class PaddleEngine:
    """PaddleOCR's detection and recognition behind `engine.Engine`; the GPU path has not been run on a GPU yet."""

    name = "paddle"

    def __init__(
        self,
        *,
        gpu: bool,
        threads: int,
        recognition_batch: int,
        runtime: PaddleRuntime,
        detection_model_dir: Path | None,
        recognition_model_dir: Path | None,
    ) -> None:
        """Load the models.

        Raises:
            ConfigurationError: the runtime or the models are missing, or a GPU is wanted and none is usable.
        """
        detection = find_model(detection_model_dir, _BUNDLED_DETECTION, "DETECTSCHED_OCR_DETECTION_MODEL_DIR")
        recognition = find_model(recognition_model_dir, _BUNDLED_RECOGNITION, "DETECTSCHED_OCR_RECOGNITION_MODEL_DIR")
        runtime = choose_runtime(runtime, (detection, recognition), gpu=gpu)
        prepared = prepare(runtime, gpu=gpu, threads=threads)
        cv2.setNumThreads(threads)
        self._batch = recognition_batch
        self._detection = TextDetection(**detection.arguments, **_DETECTION, **prepared.arguments)
        self._recognition = TextRecognition(**recognition.arguments, **prepared.arguments)
        if gpu and runtime is PaddleRuntime.ONNXRUNTIME:
            self._require_on_cuda()
        self.version = "/".join(
            (
                importlib.metadata.version("paddleocr"),
                prepared.label,
                detection.version(runtime),
                recognition.version(runtime),
                "cuda" if gpu else "cpu",
            )
        )

    def read(self, image: Image, *, thrifty: bool = False) -> tuple[Line, ...]:
        """Read one image."""
        return read_lines(image, self._detect, self._recognise, min_score=_MIN_SCORE, thrifty=thrifty)

    def read_many(self, images: Sequence[Image]) -> list[tuple[Line, ...]]:
        """Read several images, their lines recognised together."""
        return read_many_lines(images, self._detect, self._recognise, min_score=_MIN_SCORE)

    def _detect(self, tile: Image) -> Sequence[Quad]:
        (found,) = self._detection.predict(tile, batch_size=1)
        return [np.asarray(quad, dtype=np.float32) for quad in found["dt_polys"]]

    def _recognise(self, crops: Sequence[Image]) -> Sequence[tuple[str, float]]:
        answers = self._recognition.predict(list(crops), batch_size=self._batch)
        return [(str(answer["rec_text"]), float(answer["rec_score"])) for answer in answers]

    def _require_on_cuda(self) -> None:
        from detectsched.ocr.onnx import require_on_cuda  # noqa: PLC0415 - needs ONNX Runtime

        for module in (self._detection, self._recognition):
            require_on_cuda(module.paddlex_predictor.runner.session)
