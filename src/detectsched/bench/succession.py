"""``detectsched bench succession``: from the end of one task of an object to the start of the next."""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from detectsched import __version__
from detectsched.bench.latency import quantile
from detectsched.bench.own_system import on_own_system
from detectsched.client import Client
from detectsched.clock import monotonic
from detectsched.embedded.up import System

_WARM_UP: Final = 20
_TEXT: Final = "an ordinary text without anything in it, about as long as a chat message"


async def run_succession(count: int) -> int:
    """Measure against a system that is started for it; return the exit status."""

    async def guest(system: System) -> int:
        return await _measure(system.api_url, system.admin_key or "", count)

    return await on_own_system(guest, text_runners=1)


async def _measure(url: str, key: str, count: int) -> int:
    async with Client(url, key) as client:
        name = f"bench {monotonic()}"
        lines = [{"kind": "text", "object": name, "text": f"{_TEXT} {number}"} for number in range(count + _WARM_UP)]
        ids = await client.submit_batch(lines)
        await client.result(ids[-1])
        tasks = [await client.result(task_id) for task_id in ids]
    gaps = gaps_of(tasks)[_WARM_UP:]
    console = Console()
    console.print(_table(gaps))
    console.print(
        f"detectsched {__version__}, Python {platform.python_version()}, {platform.machine()}, {count} texts of one "
        f"object, all waiting from the beginning, {sys.platform}"
    )
    if any(task["state"] != "succeeded" for task in tasks) or min(gaps) < 0:
        console.print("not every text succeeded, or two ran at once", style="bold red")
        return 1
    return 0


def gaps_of(tasks: Sequence[Any]) -> list[float]:
    """Return the milliseconds from each task's end to the next one's start, as PostgreSQL has them."""
    return [
        1000 * (_moment(after["started_at"]) - _moment(before["finished_at"])).total_seconds()
        for before, after in pairwise(tasks)
    ]


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _table(gaps: Sequence[float]) -> Table:
    table = Table("milliseconds", "p50", "p95", "p99", "max", title="From the end of a task to the next of its object")
    ordered = sorted(gaps)
    table.add_row("finished → started", *(f"{quantile(ordered, q):.2f}" for q in (0.5, 0.95, 0.99, 1.0)))
    return table
