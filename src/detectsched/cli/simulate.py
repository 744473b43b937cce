"""``detectsched simulate``: what a policy would do with a load, without waiting for it; and ``bench dispatch``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from detectsched.cli.output import Output
from detectsched.cli.tools import bench


class Generator(StrEnum):
    """Built-in workloads."""

    FLOOD = "flood"
    BURSTS = "bursts"
    TOGETHER = "together"
    ZIPF = "zipf"
    TENANTS = "tenants"
    WEIGHTS = "weights"
    COSTS = "costs"
    OUTAGE = "outage"
    MIXED = "mixed"


class SimulatedPolicyName(StrEnum):
    """Policies to compare; ``original`` is the original's formula to the letter."""

    FAIR = "fair"
    AGING = "aging"
    FIFO = "fifo"
    ORIGINAL = "original"


def simulate(
    workload: Annotated[
        Path | None, typer.Argument(help="A workload file (docs/fairness.md shows one).", show_default=False)
    ] = None,
    generator: Annotated[
        Generator, typer.Option(help="A built-in workload, where no file is given.")
    ] = Generator.FLOOD,
    policy: Annotated[
        list[SimulatedPolicyName] | None,
        typer.Option(help="Policy to run; may be repeated.", show_default="fair, aging and fifo"),
    ] = None,
    runners: Annotated[int | None, typer.Option(min=1, max=10_000, help="Runners of the first class.")] = None,
    slots: Annotated[int | None, typer.Option(min=1, max=1000, help="Slots per lane of each of them.")] = None,
    hours: Annotated[float | None, typer.Option(min=0.001, max=8784, help="How long devices submit.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of everything random; the same seed gives the same report.")] = 1,
    report: Annotated[
        str | None, typer.Option(help="Write a report to this .html or .svg file; - writes HTML to standard output.")
    ] = None,
    output: Annotated[Output, typer.Option("-o", "--output", help="Of standard output.")] = Output.TABLE,
    find_runners: Annotated[
        bool, typer.Option("--find-runners", help="Find the least runners that keep the p99 wait to the target.")
    ] = False,
    target_p99: Annotated[float, typer.Option(min=0.001, help="That target, in seconds.")] = 60.0,
    redis_url: Annotated[
        str | None, typer.Option(help="A Redis or Valkey to use, under prefixes of its own; else one is started.")
    ] = None,
) -> None:
    """Run a load through the scheduler's own scripts in virtual time, and compare policies.

    DETECTSCHED_SCHEDULER_* settings hold here as they do in a real system (batch size, TTL, back-offs).
    """
    import uvloop

    from detectsched.simulate.command import SimulateOptions, run_simulate
    from detectsched.simulate.run import SimulatedPolicy

    options = SimulateOptions(
        workload=workload,
        generator=generator.value,
        policies=tuple(SimulatedPolicy(one.value) for one in policy or ()),
        runners=runners,
        slots=slots,
        hours=hours,
        seed=seed,
        report=report,
        as_json=output is Output.JSON,
        target_p99=target_p99 if find_runners else None,
        redis_url=redis_url,
    )
    raise typer.Exit(uvloop.run(run_simulate(options)))


@bench.command("dispatch")
def bench_dispatch(
    few: Annotated[int, typer.Option(min=1, help="Backlogged queues to begin with.")] = 100,
    many: Annotated[int, typer.Option(min=1, max=1_000_000, help="Backlogged queues to compare.")] = 100_000,
    rounds: Annotated[int, typer.Option(min=3, max=10_000, help="Calls measured at each.")] = 300,
    redis_url: Annotated[str | None, typer.Option(help="A Redis or Valkey to use; else one is started.")] = None,
) -> None:
    """Measure what dispatching a task costs with few and with many backlogged queues, and show the ratio."""
    import uvloop

    from detectsched.bench.dispatch import run_dispatch

    raise typer.Exit(uvloop.run(run_dispatch(few=few, many=many, rounds=rounds, redis_url=redis_url)))
