"""``detectsched bench latency``: from the POST of a text to an idle system until it is known to have succeeded."""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.progress import track
from rich.table import Table

from detectsched import __version__
from detectsched.bench.own_system import on_own_system
from detectsched.client import Client
from detectsched.clock import monotonic
from detectsched.embedded.up import System

_MAC: Final = "02:de:05:00:be:01"
_WARM_UP: Final = 20
_TEXT: Final = "an ordinary text without anything in it, about as long as a chat message"


async def run_latency(*, url: str | None, key: str | None, count: int) -> int:
    """Measure against a running system, or against one that is started for it; return the exit status."""
    if url is not None:
        return await _measure(url, key or "", count)

    async def guest(system: System) -> int:
        return await _measure(system.api_url, system.admin_key or "", count)

    return await on_own_system(guest, text_runners=1)


async def _measure(url: str, key: str, count: int) -> int:
    accepted: list[float] = []
    finished: list[float] = []
    states: set[str] = set()
    async with Client(url, key) as client:
        for number in track(range(count + _WARM_UP), "one text after the other", console=Console(stderr=True)):
            began = monotonic()
            task_id = await client.submit_text(_MAC, f"{_TEXT} {number}", key=f"bench-{began}-{number}")
            accepted_at = monotonic()
            states.add((await client.result(task_id))["state"])
            if number >= _WARM_UP:
                accepted.append(1000 * (accepted_at - began))
                finished.append(1000 * (monotonic() - began))
    console = Console()
    console.print(_table(accepted, finished))
    console.print(
        f"detectsched {__version__}, Python {platform.python_version()}, {platform.machine()}, "
        f"{count} texts one at a time over HTTP, {sys.platform}"
    )
    if states != {"succeeded"}:
        console.print(f"not every text succeeded: {sorted(states)}", style="bold red")
        return 1
    return 0


def _table(accepted: Sequence[float], finished: Sequence[float]) -> Table:
    table = Table("milliseconds", "p50", "p95", "p99", "max", title="Latency of a text on an idle system")
    for name, values in (("POST → 202 (durably accepted)", accepted), ("POST → succeeded (long-poll)", finished)):
        ordered = sorted(values)
        table.add_row(name, *(f"{quantile(ordered, q):.2f}" for q in (0.5, 0.95, 0.99, 1.0)))
    return table


def quantile(ordered: Sequence[float], q: float) -> float:
    """Return the smallest value that at least a share ``q`` of all does not exceed."""
    return ordered[max(0, min(len(ordered) - 1, round(q * len(ordered) + 0.5) - 1))]
