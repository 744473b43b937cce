"""What NVML says of the GPUs: nothing at all where there is no driver, and never an exception."""

from __future__ import annotations

from dataclasses import dataclass

import pynvml


@dataclass(frozen=True, slots=True)
class GpuLoad:
    """The busiest GPU's load in percent; ``available`` is 0 without a GPU or a driver."""

    available: int = 0
    util: float = 0.0
    memory_util: float = 0.0


def measure_gpu() -> GpuLoad:
    """Ask NVML once. Has been run without a driver only; with one it has not been run yet."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return GpuLoad()
    try:
        return _measure()
    except pynvml.NVMLError:
        return GpuLoad()
    finally:
        pynvml.nvmlShutdown()


def _measure() -> GpuLoad:
    util = memory = 0.0
    count = int(pynvml.nvmlDeviceGetCount())
    for index in range(count):
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        info = pynvml.nvmlDeviceGetMemoryInfo(handle)
        memory = max(memory, 100 * info.used / info.total)
        try:
            util = max(util, float(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu))
        except pynvml.NVMLError_NotSupported:
            continue  # MIG: unknown is not zero, but memory is what counts
    return GpuLoad(int(count > 0), util, memory)
