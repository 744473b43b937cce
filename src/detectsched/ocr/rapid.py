"""RapidOCR on ONNX Runtime, with the models that its wheel carries: nothing is ever downloaded."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import cv2
import numpy as np
from rapidocr import RapidOCR
from rapidocr.main import RapidOCRError

from detectsched.detection import Line
from detectsched.errors import ConfigurationError
from detectsched.ocr.onnx import require_cuda_build, require_on_cuda
from detectsched.ocr.reading import Image, read_lines, read_many_lines
from detectsched.ocr.tiles import Quad

_MIN_SCORE: Final = 0.5
"""RapidOCR's own ``text_score``."""
_LEAST_SIDE: Final = 64
"""An image is enlarged until its short side has this many pixels: PaddleOCR's value.

RapidOCR's 736 makes a strip of text ten times larger. Measured on 31 pages with text of 8 to 36 pixels: the same
lines are read with both, three times faster with this one.
"""
_ROLES: Final = {"Det": "_det", "Rec": "_rec"}


class RapidEngine:
    """RapidOCR's detection and recognition behind `engine.Engine`.

    Its classifier of upside-down lines is not used: it looks at a line squeezed to four times its height, and turned 20
    of 30 long ones the wrong way. `reading` turns the lines that read badly.

    The GPU path has not been run on a GPU yet.
    """

    name = "rapidocr"

    def __init__(self, *, gpu: bool, threads: int, recognition_batch: int) -> None:
        """Load the models.

        Raises:
            ConfigurationError: no usable GPU was found but one is wanted, or the wheel lacks its models.
        """
        if gpu:
            require_cuda_build("the extra ocr-gpu in place of ocr")
        models = _wheel_models()
        cv2.setNumThreads(threads)
        self._ocr = RapidOCR(
            params={
                "Global.log_level": "error",
                # `reading` cuts an image into tiles, so it is neither shrunk nor, for being flat, padded.
                "Global.max_side_len": 1_000_000,
                "Global.min_height": 0,
                "Global.width_height_ratio": -1,
                "Det.limit_side_len": _LEAST_SIDE,
                "EngineConfig.onnxruntime.intra_op_num_threads": threads,
                "EngineConfig.onnxruntime.inter_op_num_threads": 1,
                "EngineConfig.onnxruntime.use_cuda": gpu,
                "Rec.rec_batch_num": recognition_batch,
                **{f"{role}.model_path": str(path) for role, path in models.items()},
            }
        )
        self.version = "/".join(
            (importlib.metadata.version("rapidocr"), models["Det"].stem, models["Rec"].stem, "cuda" if gpu else "cpu")
        )
        if gpu:
            self._require_cuda()

    def read(self, image: Image, *, thrifty: bool = False) -> tuple[Line, ...]:
        """Read one image."""
        return read_lines(image, self._detect, self._recognise, min_score=_MIN_SCORE, thrifty=thrifty)

    def read_many(self, images: Sequence[Image]) -> list[tuple[Line, ...]]:
        """Read several images, their lines recognised together."""
        return read_many_lines(images, self._detect, self._recognise, min_score=_MIN_SCORE)

    def _detect(self, tile: Image) -> Sequence[Quad]:
        try:
            _, found = self._ocr.detect_and_crop(tile, {})
        except RapidOCRError:
            # Its way of saying that there is no text.
            return []
        return [] if found.boxes is None else list(found.boxes.astype(np.float32))

    def _recognise(self, crops: Sequence[Image]) -> Sequence[tuple[str, float]]:
        answer = self._ocr.recognize_txt(list(crops))
        texts: tuple[str, ...] = answer.txts or ()
        return list(zip(map(str, texts), map(float, answer.scores), strict=True))

    def _require_cuda(self) -> None:
        """Load a model, which happens with the first image, and see where it is."""
        self._detect(np.full((_LEAST_SIDE, _LEAST_SIDE, 3), 255, np.uint8))
        loaded: Any = self._ocr.text_det
        require_on_cuda(loaded.session.session)


def _wheel_models() -> dict[str, Path]:
    """Return the model of each role that came with the wheel.

    RapidOCR stores what it downloads in the same directory, hence the look at the wheel's list of files.
    """
    files = [file for file in importlib.metadata.files("rapidocr") or [] if file.suffix == ".onnx"]
    models = {}
    for role, mark in _ROLES.items():
        fitting = [path for file in files if mark in file.name and (path := Path(str(file.locate()))).is_file()]
        if len(fitting) != 1:
            raise ConfigurationError(
                f"rapidocr {importlib.metadata.version('rapidocr')} carries {len(fitting)} models for {role}, not one: "
                "reinstall it (pip install --force-reinstall rapidocr)"
            )
        models[role] = fitting[0]
    return models
