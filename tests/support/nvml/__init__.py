"""A stand-in for the driver's NVML library, built when a test needs it; the binding that asks it is the real one."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).with_name("nvml.c")
LIBRARY: Final = "libnvidia-ml.so.1"


def can_build() -> bool:
    """Whether there is a C compiler."""
    return shutil.which("gcc") is not None


def build(directory: Path) -> Path:
    """Compile the library."""
    library = directory / LIBRARY
    subprocess.run(
        ["gcc", "-Wall", "-Werror", "-shared", "-fPIC", f"-Wl,-soname,{LIBRARY}", "-o", library, SOURCE], check=True
    )
    return library


def load(library: Path) -> None:
    """Make it this process's NVML: the loader gives the binding what is already there under the name it asks for."""
    ctypes.CDLL(str(library))


class Driver:
    """What the stand-in answers; ``answers`` are explained in nvml.c."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._answers: dict[str, object] = {}
        self.say({})

    def say(self, answers: Mapping[str, object]) -> None:
        """Change some answers."""
        self._answers |= answers
        # Replaced as a whole: the library may be reading.
        fresh = self._file.with_suffix(".new")
        fresh.write_text("".join(f"{key} {value}\n" for key, value in self._answers.items()))
        fresh.replace(self._file)

    def has_gpu(self, number: int, uuid: str, **answers: object) -> None:
        """Put in another GPU with 100 bytes of memory, so that bytes are percent."""
        most = max(number + 1, int(str(self._answers.get("count", 0))))
        self.say({"count": most, **_device(number, uuid, answers)})

    def has_instance(self, number: int, uuid: str, **answers: object) -> None:
        """Make an instance (MIG): its utilisation is never told."""
        self.say(_device(number, uuid, {"util_rc": 3, **answers}))


def _device(number: int, uuid: str, answers: Mapping[str, object]) -> dict[str, object]:
    return {f"{number}.{key}": value for key, value in {"uuid": uuid, "total": 100, **answers}.items()}
