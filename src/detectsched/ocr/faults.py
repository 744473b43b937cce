"""What kind of failure an engine had, by its words: exception types differ between engines, versions and devices.

The words are those of the reports cited in tests/ocr/test_faults.py, where every one of them is a case.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final


class Fault(StrEnum):
    """Why an image was not read this time; the words are a task's reason."""

    OUT_OF_MEMORY = "out_of_memory"
    """Of the machine, of the GPU, or beyond what one engine may take; smaller parts, another device may work."""
    GPU_ERROR = "gpu_error"
    """CUDA or a library on it failed; the process's state on the GPU is spoilt for good, the GPU itself perhaps not."""
    ENGINE_ERROR = "engine_error"
    """Anything else that the engine raised."""
    CRASHED = "engine_crashed"
    """Its process died, or said what nobody asked for."""
    TIMEOUT = "engine_timeout"
    """It was still at work when its time was over."""


CLIMBING: Final = frozenset({Fault.OUT_OF_MEMORY, Fault.GPU_ERROR})
"""After these the image is read again at once, more thriftily or elsewhere (`ladder.read`)."""
KILLING: Final = frozenset({Fault.CRASHED, Fault.TIMEOUT})
"""An image that does this to two engines is poison."""

_OUT_OF_MEMORY: Final = re.compile(
    r"ResourceExhaustedError|Out of memory error on GPU|Fail(?:ed)? to alloc(?:ate)? memory|bad_alloc"
    r"|(?:CUDA|Cuda) (?:error\(2\)|failure 2:)|cudaErrorMemoryAllocation|CU(?:DNN|BLAS)_STATUS_ALLOC_FAILED"
    r"|Available memory of \d+ is smaller than requested",
)
_GPU: Final = re.compile(
    r"\b(?:CUDA|Cuda|cuda|CUDNN|CUBLAS|CUSOLVER|NCCL)[ _]?(?:error|failure)\b|cudaError[A-Z]"
    r"|CU(?:DNN|BLAS|SOLVER)_STATUS_[A-Z]|could not execute a primitive.*gpu|device-side assert",
)


def fault_of(error: BaseException) -> Fault:
    """Return the kind of what an engine raised."""
    return Fault.OUT_OF_MEMORY if isinstance(error, MemoryError) else fault_in(f"{type(error).__name__}: {error}")


def fault_in(words: str, otherwise: Fault = Fault.ENGINE_ERROR) -> Fault:
    """Return the kind that an error's text, or a dead process's last words, tell of."""
    if _OUT_OF_MEMORY.search(words):
        return Fault.OUT_OF_MEMORY
    return Fault.GPU_ERROR if _GPU.search(words) else otherwise
