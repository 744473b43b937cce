"""Ends servers that outlived their supervisor, so that no second one opens the same files."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psutil

from detectsched.clock import monotonic
from detectsched.telemetry import get_logger

log = get_logger(__name__)

_SERVERS: Final = frozenset({"valkey-server", "redis-server", "postgres"})
_POLL_SECONDS: Final = 0.02


async def end_leftovers(data: Path, signum: signal.Signals, patience_seconds: float = 20.0) -> int:
    """End every Valkey, Redis or PostgreSQL process that works in ``data``; return how many there were.

    They are found by their working directory, not by a pid file: the id in a stale one may be anybody's by now. The
    caller holds the lock of the data, so none of them is anybody's rightful server. After a kill -9 of ours they are on
    their way out (`leash`); this waits for it, and kills what does not go.
    """
    found = list(_servers_in(data))
    if not found:
        return 0
    log.warning("ending servers that an earlier run left behind", data=str(data), pids=[p.pid for p in found])
    _send(found, signum)
    deadline = monotonic() + patience_seconds
    while remaining := list(_servers_in(data)):
        if monotonic() > deadline:
            _send(remaining, signal.SIGKILL)
        await asyncio.sleep(_POLL_SECONDS)
    return len(found)


def _send(processes: list[psutil.Process], signum: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(signum)


def _servers_in(data: Path) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.name() in _SERVERS and process.status() != psutil.STATUS_ZOMBIE and Path(process.cwd()) == data:
                yield process
