"""Blobs as files of a local directory (or of one that several machines mount)."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

from detectsched.errors import BlobMissing, ConfigurationError, StoreUnavailable
from detectsched.storage.keys import check_key

T = TypeVar("T")

_THREADS: Final = 8
"""Files written at once. Threads of our own: waiting for disks must not keep the loop's from parsing images."""

_MOST_KNOWN: Final = 10_000
"""Directories (a tenant's days) remembered as durable, so that a put need not sync them again."""


class LocalBlobs:
    """Durable by the usual means: a temporary file, fsync, rename, fsync of the directory.

    A reader sees a blob whole or not at all. What a crash leaves of a write is a ``.tmp`` file that no key can name.
    """

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="blobs")
        self._known: set[Path] = set()
        try:
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(f"DETECTSCHED_BLOBS_URL: {self._root} cannot be used: {error.strerror}") from error

    async def put(self, key: str, data: bytes) -> None:
        """Keep a blob."""
        await self._run(lambda: self._write(self._path(key), data))

    async def get(self, key: str) -> bytes:
        """Return a blob."""
        return await self._run(lambda: self._read(self._path(key)))

    async def delete(self, key: str) -> None:
        """Forget a blob."""
        await self._run(lambda: self._path(key).unlink(missing_ok=True))

    async def close(self) -> None:
        """Let the threads end."""
        self._threads.shutdown(wait=False)

    def _path(self, key: str) -> Path:
        return self._root / check_key(key)

    async def _run(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except OSError as error:
            raise StoreUnavailable(f"the blob store cannot be used: {error.strerror or error}") from error

    def _read(self, path: Path) -> bytes:
        try:
            return path.read_bytes()
        except FileNotFoundError:
            # A directory that was unmounted under us has lost nothing: its tasks must wait, not fail for good.
            if not self._root.is_dir():
                raise
            raise BlobMissing(f"the store has no {path.relative_to(self._root)}") from None

    def _write(self, path: Path, data: bytes) -> None:
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
        self._make(path.parent)
        try:
            with open(temporary, "xb", opener=_private) as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
            _sync_directory(path.parent)
        except FileNotFoundError:
            # Somebody removed directories under us: the next put makes them again.
            self._known.clear()
            raise
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    def _make(self, directory: Path) -> None:
        """Make a directory below the root so that it survives a crash: it is an entry of its parent.

        One that is there may have been made by another process a moment ago, hence not be durable yet.
        """
        if directory == self._root or directory in self._known:
            return
        self._make(directory.parent)
        directory.mkdir(mode=0o700, exist_ok=True)
        _sync_directory(directory.parent)
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known.add(directory)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
