"""Which GPUs CUDA shows a process, said as NVML names them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from detectsched.telemetry import get_logger

log = get_logger(__name__)

VISIBLE_DEVICES: Final = "CUDA_VISIBLE_DEVICES"
_ORDER: Final = "CUDA_DEVICE_ORDER"
_BY_BUS: Final = "PCI_BUS_ID"


def number_gpus_by_bus() -> None:
    """Make CUDA number the GPUs as NVML does, in this process and in the engine processes it will start.

    By default CUDA puts the fastest first, so that index 0 would be one GPU to the engine and another one to us.
    """
    order = os.environ.setdefault(_ORDER, _BY_BUS)
    if order != _BY_BUS:
        log.warning("GPUs named by index may be taken for one another; name them by UUID", **{_ORDER.lower(): order})


def visible_uuids(visible: str | None, uuids: Sequence[str]) -> list[str]:
    """Return the UUIDs of the GPUs that a value of CUDA_VISIBLE_DEVICES shows, in its order.

    Its rules (CUDA C++ Programming Guide, CUDA Environment Variables): indices, ``GPU-…`` or any unambiguous beginning
    of it, ``MIG-…``; what follows an entry that names nothing is hidden too.

    Args:
        visible: the variable's value; None: it is not set, every GPU is visible.
        uuids: those of the GPUs, in the order of the PCI bus. Instances (MIG) need not be among them.
    """
    if visible is None:
        return list(uuids)
    shown: list[str] = []
    for entry in (part.strip() for part in visible.split(",")):
        if entry.startswith("MIG-"):
            named = [entry]
        elif entry.startswith("GPU-"):
            named = [uuid for uuid in uuids if uuid.startswith(entry)]
        else:
            named = [uuids[int(entry)]] if entry.isdecimal() and int(entry) < len(uuids) else []
        if len(named) != 1 or named[0] in shown:
            break
        shown += named
    return shown
