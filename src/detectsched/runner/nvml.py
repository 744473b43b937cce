"""Asks NVML about the GPUs that this runner uses. It blocks: only `GpuWatch` calls it, in a thread of its own.

It has been run against a stand-in for the driver's library (tests/support/nvml) and on machines without a driver, not
yet on a real GPU.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pynvml

from detectsched.runner.visible import visible_uuids

_NOT_TOLD: Final = (pynvml.NVMLError_NotSupported, pynvml.NVMLError_NoPermission)
"""What this GPU never tells, or not to us: unknown, which is not 0."""


@dataclass(frozen=True, slots=True)
class GpuSample:
    """One GPU, or one instance of a divided one (MIG), at one moment; None where NVML does not tell.

    ``memory`` is what processes can have in all, and have, in bytes; ``memory_of`` tells who has it, by process: nobody
    in many containers. ``util`` is the share in percent of the last second or less in which any kernel ran: 100 does
    not mean that the GPU is full. Of an instance it is never known.
    """

    uuid: str
    memory: tuple[int, int] | None
    memory_of: Mapping[int, int] | None
    util: float | None


class Nvml:
    """An open session. Every method raises `pynvml.NVMLError`, after which it is closed and a new one opened.

    Args:
        visible: the value of CUDA_VISIBLE_DEVICES.
        used: how many of the visible GPUs are used, from the first on; None: all.
    """

    def __init__(self, visible: str | None, used: int | None) -> None:
        pynvml.nvmlInit()
        try:
            self._handles = _handles_of(visible, used)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the library; one that has failed may refuse even that."""
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()

    def sample(self) -> list[GpuSample]:
        """Ask for the present state of every GPU in use."""
        return [_sample(uuid, handle) for uuid, handle in self._handles.items()]


def visible_gpus(visible: str | None) -> list[str]:
    """Return the UUIDs of the GPUs that a value of CUDA_VISIBLE_DEVICES shows.

    Raises:
        pynvml.NVMLError: there is no driver, or it does not answer.
    """
    pynvml.nvmlInit()
    try:
        return visible_uuids(visible, [_uuid_of(index) for index in range(pynvml.nvmlDeviceGetCount())])
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def _handles_of(visible: str | None, used: int | None) -> dict[str, Any]:
    uuids = [_uuid_of(index) for index in range(pynvml.nvmlDeviceGetCount())]
    handles: dict[str, Any] = {}
    for uuid in visible_uuids(visible, uuids)[:used]:
        # Both spellings of an instance, MIG-UUID and the older MIG-GPU-UUID/GI/CI, are known to NVML itself.
        device = (
            pynvml.nvmlDeviceGetHandleByIndex(uuids.index(uuid))
            if uuid in uuids
            else pynvml.nvmlDeviceGetHandleByUUID(uuid)
        )
        device = _first_instance(device) or device
        handles[pynvml.nvmlDeviceGetUUID(device)] = device
    return handles


def _uuid_of(index: int) -> str:
    try:
        return str(pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByIndex(index)))
    except pynvml.NVMLError:
        # A GPU that is lost or not ours to ask keeps its place in the order; it matters only if we use it.
        return f"unreachable-{index}"


def _first_instance(device: Any) -> Any | None:
    """Return the instance that stands for a divided GPU: of them CUDA shows a process the first (MIG User Guide)."""
    with contextlib.suppress(pynvml.NVMLError):  # not a GPU that can be divided, or already an instance
        if pynvml.nvmlDeviceGetMigMode(device)[0] == pynvml.NVML_DEVICE_MIG_ENABLE:
            for index in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(device)):
                with contextlib.suppress(pynvml.NVMLError_NotFound):  # a place where no instance was made
                    return pynvml.nvmlDeviceGetMigDeviceHandleByIndex(device, index)
    return None


def _sample(uuid: str, handle: Any) -> GpuSample:
    return GpuSample(uuid, _memory(handle), _memory_of(handle), _util(handle))


def _memory(handle: Any) -> tuple[int, int] | None:
    try:
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    except (pynvml.NVMLError_FunctionNotFound, *_NOT_TOLD):
        try:
            # A driver older than 510: its figure of what is used includes what the driver keeps for itself.
            memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
        except _NOT_TOLD:
            return None
        return memory.total, memory.used
    return memory.total - memory.reserved, memory.used


def _util(handle: Any) -> float | None:
    try:
        return float(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu)
    except _NOT_TOLD:
        return None


def _memory_of(handle: Any) -> Mapping[int, int] | None:
    # The name without a version raises something that is no NVMLError when the driver is older than the binding.
    for ask in (pynvml.nvmlDeviceGetComputeRunningProcesses_v3, pynvml.nvmlDeviceGetComputeRunningProcesses_v2):
        try:
            processes = ask(handle)
        except pynvml.NVMLError_FunctionNotFound:
            continue
        except _NOT_TOLD:
            return None
        if any(process.usedGpuMemory is None for process in processes):
            return None
        return {process.pid: process.usedGpuMemory for process in processes}
    return None
