"""A full disk under Redis (F20): its append-only file has no room, so it takes no writes; nothing else is lost.

The file lies on a small file system of its own, mounted where only the server sees it.
"""

from __future__ import annotations

import contextlib
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from pydantic import SecretStr

from detectsched.embedded import binaries
from detectsched.embedded.places import free_port
from detectsched.embedded.servers import EmbeddedValkey
from detectsched.errors import StoreUnavailable
from detectsched.settings import RedisSettings, Settings
from tests.support.actors import Bench, device_task
from tests.support.stores import REDIS_BINARY
from tests.support.waiting import wait_until

_ROOM: Final = "4m"


def _may_mount() -> bool:
    if sys.platform != "linux":
        return False
    tried = subprocess.run(
        ["unshare", "-Urm", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False
    )
    return tried.returncode == 0


@dataclass
class SmallDisk:
    """A server whose append-only file lies on a small disk, and the ballast that fills it."""

    server: EmbeddedValkey
    directory: Path

    @property
    def ballast(self) -> Path:
        """A file on the server's disk, as its own mounts show it."""
        return Path(f"/proc/{self.server.pid}/root") / self.directory.relative_to("/") / "ballast"

    def fill(self) -> None:
        """Leave no room."""
        with self.ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))


@pytest.fixture
async def disk(tmp_path: Path) -> AsyncIterator[SmallDisk]:
    """Start a durable server inside mounts of its own."""
    if not _may_mount():
        pytest.skip("this kernel lets nobody mount a file system of his own")
    files = tmp_path / "redis"
    files.mkdir()
    program = shlex.quote(str(REDIS_BINARY or binaries.valkey_binary()))
    wrapper = tmp_path / "server.sh"
    inside = f'mount -t tmpfs -o size={_ROOM} none {shlex.quote(str(files))} && exec {program} "$@"'
    wrapper.write_text(f'#!/bin/sh\nexec unshare -Urm sh -c {shlex.quote(inside)} server "$@"\n')
    wrapper.chmod(0o700)
    server = EmbeddedValkey(files, binary=wrapper, port=free_port())
    await server.start()
    yield SmallDisk(server, files)
    await server.stop()


async def test_a_full_disk_is_an_absence_that_ends_with_room(disk: SmallDisk) -> None:
    """Every write is refused whole, as from a store that is away; with room again, everything goes on where it was."""
    bench = await Bench.opened(Settings(redis=RedisSettings(url=SecretStr(disk.server.url))))
    try:
        waiting, late = device_task(1, bench.time), device_task(1, bench.time)
        await bench.enqueue(waiting)
        disk.fill()

        async def refused() -> bool:
            try:
                await bench.queue.publish_watermark("x" * 1000, ttl_seconds=60)
            except StoreUnavailable as error:
                return "MISCONF" in error.detail
            return False

        await wait_until(refused, "the server without room")
        with pytest.raises(StoreUnavailable):
            await bench.enqueue(late)
        with pytest.raises(StoreUnavailable):
            await bench.serve(1)
        assert await bench.queue.unknown([waiting.id, late.id]) == [late.id]
        disk.ballast.unlink()

        async def taken() -> bool:
            return not await refused()

        await wait_until(taken, "the server with room")
        await bench.enqueue(late)
        assert await bench.serve(2) == [waiting.id, late.id]
    finally:
        await bench.clients.close()
