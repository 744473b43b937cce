"""One instance per data directory."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO

from detectsched.errors import ConfigurationError


class DataLock:
    """An flock on ``<data>/lock``, which holds the process id of its owner.

    The kernel drops it with the process, however that ends: there is no stale lock.
    """

    def __init__(self, data: Path) -> None:
        self._data = data
        self._file: IO[str] | None = None

    def acquire(self) -> None:
        """Take the lock; make the directory where there is none.

        Raises:
            ConfigurationError: another process has it (the message names the process), or the directory is not ours.
        """
        if self._file is not None:
            return
        try:
            self._data.mkdir(parents=True, exist_ok=True)
            file = os.fdopen(os.open(self._data / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+")
        except OSError as error:
            raise ConfigurationError(
                f"cannot keep data in {self._data}: {(error.strerror or str(error)).lower()}; give another directory "
                "with --data"
            ) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = file.read().strip() or "unknown"
            file.close()
            raise ConfigurationError(
                f"{self._data} is in use by another `detectsched up`, process {owner}: stop that one, or give another "
                "directory with --data"
            ) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        self._file = file

    def release(self) -> None:
        """Give the lock back; the file stays, for removing it would race with the next owner."""
        if self._file is not None:
            self._file.close()
            self._file = None
