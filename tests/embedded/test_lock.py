"""One instance per data directory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from detectsched.embedded.lock import DataLock
from detectsched.errors import ConfigurationError


def test_a_second_owner_is_told_who_the_first_is(tmp_path: Path) -> None:
    """The message names the process, the directory and what to do."""
    first, second = DataLock(tmp_path / "data"), DataLock(tmp_path / "data")
    first.acquire()
    with pytest.raises(
        ConfigurationError, match=rf"data is in use by .* process {os.getpid()}: stop that one, or .*--data"
    ):
        second.acquire()
    first.release()
    second.acquire()
    second.release()


def test_a_dead_owner_is_none(tmp_path: Path) -> None:
    """After kill -9 the lock is free at once, whatever the file says."""
    script = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom detectsched.embedded.lock import DataLock\n"
        "lock = DataLock(Path(sys.argv[1]))\nlock.acquire()\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", script, tmp_path], check=False).returncode == -9
    assert (tmp_path / "lock").read_text().strip().isdigit()
    lock = DataLock(tmp_path)
    lock.acquire()
    assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"
    lock.release()


def test_a_directory_that_cannot_be_made_is_explained(tmp_path: Path) -> None:
    """A file is in the way."""
    (tmp_path / "data").write_text("a file")
    with pytest.raises(ConfigurationError, match=r"cannot keep data in .*data: .*--data"):
        DataLock(tmp_path / "data").acquire()


def test_acquiring_twice_is_once(tmp_path: Path) -> None:
    """The same owner may ask again, and give back twice."""
    lock = DataLock(tmp_path)
    lock.acquire()
    lock.acquire()
    lock.release()
    lock.release()
