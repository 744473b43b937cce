"""What the engine's process does with a request: decode, read, and turn whatever goes wrong into an answer."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from detectsched.detection import Box, Line
from detectsched.errors import PayloadRejected
from detectsched.ocr.canary import require_canary
from detectsched.ocr.decode import decode_frames
from detectsched.ocr.engine import AnswerCountError, BatchEngine, Engine
from detectsched.ocr.faults import Fault, fault_of
from detectsched.ocr.protocol import Answer, Broken, Done, DoneMany, Read, ReadMany, Rejected
from detectsched.settings import OcrSettings

Image = NDArray[np.uint8]

_LONGEST_DETAIL: Final = 500


def examine(engine: Engine, request: Read, settings: OcrSettings, max_pixels: int) -> Answer:
    """Decode and read one image.

    Out of memory, it is read once more with less of it: engines were seen to go on working after that. Whether this one
    does, its test image tells: of others it is known that they return nothing from then on (PaddleOCR issue 13145).
    """
    answer = _read(engine, request, settings, max_pixels, thrifty=request.thrifty)
    if request.thrifty or not isinstance(answer, Broken) or answer.reason != Fault.OUT_OF_MEMORY:
        return answer
    answer = _read(engine, request, settings, max_pixels, thrifty=True)
    if isinstance(answer, Done):
        try:
            require_canary(engine)
        except Exception as error:  # noqa: BLE001 - whatever it is, the engine has not survived
            return Broken(request.serial, Fault.OUT_OF_MEMORY, _words(error))
    return answer


def examine_many(engine: Engine, request: ReadMany, settings: OcrSettings, max_pixels: int) -> Answer:
    """Decode each image and read all of them together; a bad one is answered for itself.

    Whatever else goes wrong goes wrong for all: the runner then divides the batch to find the culprit.
    """
    started = time.perf_counter()
    frames: list[Image] = []
    outcomes: list[Rejected | int] = []
    try:
        for data in request.images:
            try:
                own = _frames(data, settings, max_pixels)
            except PayloadRejected as error:
                outcomes.append(Rejected(request.serial, error.reason, error.detail))
            else:
                frames += own
                outcomes.append(len(own))
        lines = _read_many(engine, frames)
    except Exception as error:  # noqa: BLE001 - the runner decides what follows, it needs an answer in any case
        return _broken(request.serial, error)
    seconds = (time.perf_counter() - started) / max(1, len(request.images))
    read = iter([(image.shape[1], image.shape[0], found) for image, found in zip(frames, lines, strict=True)])
    return DoneMany(
        request.serial,
        tuple(
            outcome if isinstance(outcome, Rejected) else _done(request.serial, islice(read, outcome), seconds)
            for outcome in outcomes
        ),
    )


def _read_many(engine: Engine, images: list[Image]) -> list[tuple[Line, ...]]:
    if not isinstance(engine, BatchEngine):
        return [engine.read(image) for image in images]
    lines = engine.read_many(images)
    if len(lines) != len(images):
        raise AnswerCountError(f"{len(images)} images went in, {len(lines)} answers came out")
    return lines


def _read(engine: Engine, request: Read, settings: OcrSettings, max_pixels: int, *, thrifty: bool) -> Answer:
    started = time.perf_counter()
    read: list[tuple[int, int, tuple[Line, ...]]] = []
    try:
        # One frame at a time is held.
        for image in decode_frames(
            request.data, max_pixels=max_pixels, policy=settings.frames, most=settings.max_frames
        ):
            read.append((image.shape[1], image.shape[0], engine.read(image, thrifty=thrifty)))  # noqa: PERF401
    except PayloadRejected as error:
        return Rejected(request.serial, error.reason, error.detail)
    except Exception as error:  # noqa: BLE001 - as above
        return _broken(request.serial, error)
    return _done(request.serial, read, time.perf_counter() - started)


def _frames(data: bytes, settings: OcrSettings, max_pixels: int) -> list[Image]:
    return list(decode_frames(data, max_pixels=max_pixels, policy=settings.frames, most=settings.max_frames))


def _done(serial: int, read: Iterable[tuple[int, int, tuple[Line, ...]]], seconds: float) -> Done:
    """Lay frames or pages (width, height, lines) on one plane, each below the one before."""
    lines: list[Line] = []
    width = height = 0
    for frame_width, frame_height, found in read:
        lines += (Line(line.text, _lowered(line.box, height), line.score) for line in found)
        width, height = max(width, frame_width), height + frame_height
    return Done(serial, tuple(lines), width, height, seconds)


def _lowered(box: Box, by: int) -> Box:
    return Box(box.left, box.top + by, box.right, box.bottom + by)


def _broken(serial: int, error: Exception) -> Broken:
    print(f"{type(error).__name__}: {error}", file=sys.stderr)
    return Broken(serial, fault_of(error), _words(error))


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[-_LONGEST_DETAIL:]
