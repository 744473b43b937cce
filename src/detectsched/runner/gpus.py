"""Which GPUs a runner's engines work on, by UUID: an index means different GPUs to those who count differently."""

from __future__ import annotations

from collections.abc import Sequence

import pynvml

from detectsched.errors import ConfigurationError
from detectsched.runner.nvml import visible_gpus


def chosen_gpus(wanted: Sequence[str], visible: str | None) -> list[str]:
    """Return the UUIDs of the wanted GPUs.

    Args:
        wanted: indices among the visible GPUs, UUIDs, or unambiguous beginnings of them; none: nothing is asked.
        visible: the value of CUDA_VISIBLE_DEVICES.

    Raises:
        ConfigurationError: there is no such GPU, it is named twice, or no driver that could tell.
    """
    if not wanted:
        return []
    try:
        uuids = visible_gpus(visible)
    except pynvml.NVMLError as error:
        raise ConfigurationError(
            f"GPUs cannot be chosen: NVML does not answer ({error}). Install the driver, in a container with the "
            "capability utility, or leave the choice out and set CUDA_VISIBLE_DEVICES"
        ) from error
    chosen: list[str] = []
    for name in wanted:
        if name.isdecimal():
            found = uuids[int(name) : int(name) + 1]
        else:
            found = [uuid for uuid in uuids if uuid.startswith(name)]
        if len(found) != 1 or found[0] in chosen:
            wrong = "a GPU that was named before" if found and found[0] in chosen else "no single GPU"
            raise ConfigurationError(f"{name!r} names {wrong}; visible are, from index 0: {', '.join(uuids) or 'none'}")
        chosen += found
    return chosen
