"""Real processes that keep the machine busy: ours do not push a runner back, others do."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psutil

from detectsched.runner.health import Health
from detectsched.settings import RunnerSettings
from tests.support.waiting import wait_until

CORES: Final = len(os.sched_getaffinity(0))
BUSY: Final = "import time\nend = time.monotonic() + 60\nwhile time.monotonic() < end: sum(range(100_000))"
"""Ends by itself, should this test not get to it."""
_LOOKS_SECONDS: Final = 0.3


@contextmanager
def busy(count: int) -> Iterator[set[int]]:
    """Keep so many cores busy, in processes that are nobody's children.

    Each is a session of its own: where the scheduler shares out time between sessions, one for all would get little.
    """
    script = f'for i in $(seq {count}); do setsid "$0" -c "$1" >/dev/null 2>&1 & echo $!; done'
    shell = subprocess.run(["sh", "-c", script, sys.executable, BUSY], check=True, capture_output=True, text=True)
    pids = {int(pid) for pid in shell.stdout.split()}
    try:
        yield pids
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)


def everybody_but(strangers: set[int]) -> set[int]:
    """Return processes whose trees are all of this machine but these, wherever the system has put orphans."""
    above = {1}
    for pid in strangers:
        with contextlib.suppress(psutil.Error):
            above |= {parent.pid for parent in psutil.Process(pid).parents()}
    return {child.pid for pid in above for child in psutil.Process(pid).children()} - above - strangers


async def test_own_work_does_not_push_back_and_that_of_others_does() -> None:
    """With every core busy by its own work it keeps working; others that want as much stop it until they have gone.

    All that this machine does besides counts as own work here, so that it may have other things to do.
    """
    others: set[int] = set()
    changes: list[str] = []
    health = Health(
        RunnerSettings(memory_high_percent=100),
        engine_ready=lambda: True,
        sibling_pids=lambda: everybody_but(others),
        on_change=lambda: changes.append(health.state),
    )
    health._interval = _LOOKS_SECONDS
    await health.start()
    with busy(CORES):
        await looks(health, 12)
        assert health.load is not None
        assert health.load.cpu_percent > 80
        assert changes == [], "pushed back by its own work, or by somebody outside this container"
        with busy(4 * CORES) as strangers:
            others |= strangers
            await wait_until(lambda: health.state == "busy", lambda: f"busy: {health.load}", timeout=30)
            assert health.reason.startswith("CPU load of others ")
            await looks(health, 4)
            assert changes == ["busy"]
        await wait_until(lambda: health.state == "healthy", lambda: f"healthy again: {health.load}", timeout=30)
    await health.stop()


async def looks(health: Health, number: int) -> None:
    """Wait until it has looked so many times more."""
    seen: list[object] = []

    def enough() -> bool:
        if not seen or seen[-1] is not health.load:
            seen.append(health.load)
        return len(seen) > number

    await wait_until(enough, "more looks", timeout=30)
