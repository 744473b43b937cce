"""The ladder that an image climbs when memory or a GPU fails it, and how a batch with such an image is divided.

1. The engine's own process reads smaller parts (`examine`); 2. a fresh process does so from the beginning; 3. for an
image of a GPU a process on the CPU does. Each rung is tried at once, so that one try at a task is one climb.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from detectsched.detection import EngineResult
from detectsched.errors import EngineFailed, EngineUnavailable, PayloadRejected, TaskFailed
from detectsched.ocr.faults import CLIMBING, Fault
from detectsched.ocr.process import EngineProcess
from detectsched.ocr.slot import Slot
from detectsched.telemetry import get_logger

log = get_logger(__name__)

_BATCH_SHARE: Final = 0.25
"""A batch's part of one image's time: those that are not to blame still have time to be read after it."""


async def read(slot: Slot, data: bytes, timeout_seconds: float) -> EngineResult:
    """Read one image file in a slot; cancelling kills the engine that works on it.

    Raises:
        PayloadRejected: it can never be read; ``too_large`` when even small parts of it take more than an engine may
            take.
        EngineUnavailable: no engine could be started.
        EngineFailed: as `EngineProcess.read`.
    """
    thrifty = False
    while True:
        process = await slot.engine()
        try:
            result = await process.read(data, timeout_seconds, thrifty=thrifty)
        except EngineFailed as error:
            if error.reason not in CLIMBING:
                raise
            log.warning("image climbs the ladder", slot=slot.number, gpu=process.gpu, error=error.detail)
            if process.gpu:
                slot.gpu_failed(error)
            if thrifty and not process.gpu:
                raise _at_the_top(process, error) from error
            if thrifty:
                return await _read_on_cpu(slot, data, timeout_seconds)
            thrifty = True
        else:
            if process.gpu:
                slot.gpu_worked()
            return result
        finally:
            slot.look_at(process)


async def read_many(slot: Slot, images: Sequence[bytes], timeout_seconds: float) -> list[EngineResult | Exception]:
    """Read image files together; for each what was read, or what `read` would raise.

    What goes wrong with a batch is the doing of one image in it. It is halved until that one is alone and climbs its
    ladder; the others are read, and cost no attempt.

    Raises:
        EngineUnavailable: no engine could be started.
    """
    if len(images) > 1:
        process = await slot.engine()
        try:
            return list(await process.read_many(images, timeout_seconds * _BATCH_SHARE))
        except EngineUnavailable:
            raise
        except EngineFailed as error:
            log.warning("batch divided", slot=slot.number, images=len(images), error=error.detail)
            # Of one that hangs each half would cost another time-out.
            step = 1 if error.reason == Fault.TIMEOUT else (len(images) + 1) // 2
            parts = [images[start : start + step] for start in range(0, len(images), step)]
            return [each for part in parts for each in await read_many(slot, part, timeout_seconds)]
        finally:
            slot.look_at(process)
    try:
        return [await read(slot, image, timeout_seconds) for image in images]
    except TaskFailed as error:
        return [error]


async def _read_on_cpu(slot: Slot, data: bytes, timeout_seconds: float) -> EngineResult:
    async with slot.engine_on_cpu() as process:
        try:
            return await process.read(data, timeout_seconds, thrifty=True)
        except EngineFailed as error:
            if error.reason not in CLIMBING:
                raise
            raise _at_the_top(process, error) from error


def _at_the_top(process: EngineProcess, error: EngineFailed) -> Exception:
    """Return how an image ends that failed on every rung.

    One that outgrew an engine's limit does so everywhere and always. One that met a machine without memory may be read
    when the machine has some: `runner.outcome` ends it as too large after its last try.
    """
    if not process.over_limit:
        return error
    limit = process.memory_limit_mb
    return PayloadRejected(
        "too_large", f"reading this image takes more than {limit} MB even in small parts: scale it down"
    )
