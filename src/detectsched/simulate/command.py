"""``detectsched simulate``: options in, a report out."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column, Table

from detectsched.embedded.temporary import temporary_valkey
from detectsched.errors import ConfigurationError
from detectsched.settings import LogSettings, Settings, load_settings
from detectsched.simulate.capacity import Probe, find_runners
from detectsched.simulate.chart import comparison_svg
from detectsched.simulate.generators import GENERATORS
from detectsched.simulate.page import comparison_html
from detectsched.simulate.report import LOOK, json_document, seconds_text, tables
from detectsched.simulate.run import Comparison, SimulatedPolicy, compare
from detectsched.simulate.workload import Workload, load_workload
from detectsched.telemetry import configure_logging

DEFAULT_POLICIES: Final = (SimulatedPolicy.FAIR, SimulatedPolicy.AGING, SimulatedPolicy.FIFO)


@dataclass(frozen=True, slots=True)
class SimulateOptions:
    """What the command line says; None where it says nothing. With ``target_p99`` runners are looked for."""

    workload: Path | None = None
    generator: str = "flood"
    policies: tuple[SimulatedPolicy, ...] = ()
    runners: int | None = None
    slots: int | None = None
    hours: float | None = None
    seed: int = 1
    report: str | None = None
    as_json: bool = False
    target_p99: float | None = None
    redis_url: str | None = None


async def run_simulate(options: SimulateOptions) -> int:
    """Simulate, and write the report; return the exit status.

    Raises:
        ConfigurationError: a wrong workload file, report name or setting.
        InvalidRequest: no number of runners meets the target.
        StoreUnavailable: the Redis named is not there.
    """
    _check_report(options)
    settings = load_settings()
    configure_logging(LogSettings(level="warning"), "simulate")
    workload = _workload(options)
    async with temporary_valkey(options.redis_url) as url:
        if options.target_p99 is not None:
            return await _find(options, options.target_p99, workload, settings, url)
        policies = tuple(dict.fromkeys(options.policies)) or DEFAULT_POLICIES
        with _progress() as progress:
            bars = {policy.value: progress.add_task(policy.value, total=None) for policy in policies}

            def show(policy: str, done: int, total: int) -> None:
                progress.update(bars[policy], completed=done, total=total)

            comparison = await compare(workload, policies, settings=settings, url=url, seed=options.seed, progress=show)
    _write(comparison, options, settings)
    return 0


def _workload(options: SimulateOptions) -> Workload:
    workload = load_workload(options.workload) if options.workload else GENERATORS[options.generator]()
    if options.hours is not None:
        workload = workload.model_copy(update={"hours": options.hours})
    return workload.with_runners(count=options.runners, slots=options.slots)


def _check_report(options: SimulateOptions) -> None:
    """Refuse at once what would otherwise be lost after minutes."""
    if options.report is None or options.report == "-":
        return
    path = Path(options.report)
    if path.suffix not in {".html", ".svg"}:
        raise ConfigurationError(f"--report {options.report}: name a .html or .svg file, or - for standard output")
    if not path.parent.is_dir():
        raise ConfigurationError(f"--report {options.report}: there is no directory {path.parent}")


def _write(comparison: Comparison, options: SimulateOptions, settings: Settings) -> None:
    if options.report == "-":
        sys.stdout.write(comparison_html(comparison, settings.scheduler))
        return
    if options.report is not None:
        path = Path(options.report)
        as_page = path.suffix == ".html"
        text = comparison_html(comparison, settings.scheduler) if as_page else comparison_svg(comparison)
        path.write_text(text, encoding="utf-8")
    if options.as_json:
        sys.stdout.write(json.dumps(json_document(comparison, settings.scheduler), indent=2) + "\n")
        return
    console = wide_console()
    for part in tables(comparison, settings.scheduler):
        console.print(part, highlight=False)


async def _find(options: SimulateOptions, target: float, workload: Workload, settings: Settings, url: str) -> int:
    policy = (options.policies or DEFAULT_POLICIES)[0]
    talk = Console(stderr=True)

    def tried(probe: Probe) -> None:
        talk.print(f"{probe.runners:,} runners: p99 wait {_p99(probe, target)}", highlight=False)

    found, probes = await find_runners(
        workload, policy, target_p99_seconds=target, settings=settings, url=url, seed=options.seed, tried=tried
    )
    if options.as_json:
        tries = [{"runners": one.runners, "p99_wait_seconds": one.p99, "enough": one.enough} for one in probes]
        document = {"policy": policy.value, "target_p99_seconds": target, "runners": found, "tried": tries}
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
        return 0
    columns = (Column("runners", justify="right"), Column("p99 wait", justify="right"))
    table = Table(*columns, title=workload.title or workload.name, **LOOK)
    for one in probes:
        table.add_row(f"{one.runners:,}", _p99(one, target))
    console = wide_console()
    console.print(table)
    console.print(
        f"{found:,} runners keep the p99 wait to {seconds_text(target)} under {policy.value}", highlight=False
    )
    return 0


def wide_console() -> Console:
    """Return standard output for tables: a pipe has no width, and a narrow terminal breaks lines without losing any."""
    console = Console()
    console.width = max(console.width, 130)
    return console


def _p99(probe: Probe, target: float) -> str:
    return f"over {seconds_text(target)}" if probe.p99 is None else seconds_text(probe.p99)


@contextmanager
def _progress() -> Iterator[Progress]:
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.completed:,.0f} tasks"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    ) as progress:
        yield progress
