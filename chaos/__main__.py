"""``python -m chaos``: load under faults on a system of its own, judged by the checker at the end."""

from __future__ import annotations

import secrets
import tempfile
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from chaos.cluster import Shape
from chaos.faults import FAULTS
from chaos.report import report
from chaos.run import plan, run, short_plan
from detectsched.cli.exits import exit_code_of
from detectsched.errors import ConfigurationError
from detectsched.settings import LogSettings
from detectsched.telemetry import configure_logging


def chaos(
    seed: Annotated[int | None, typer.Option(help="Decides the order of faults and all chance of the client.")] = None,
    short: Annotated[bool, typer.Option("--short", help="Only what CI plays, in about a minute.")] = False,
    tasks: Annotated[int, typer.Option(min=1, help="Least tasks to be accepted under faults.")] = 2000,
    rounds: Annotated[int, typer.Option(min=1, help="How often every fault is played.")] = 1,
    fault: Annotated[list[str] | None, typer.Option(help="Only these faults; may be given several times.")] = None,
    directory: Annotated[Path | None, typer.Option(help="Keep journal, logs and data here; must be empty.")] = None,
    redis_binary: Annotated[Path | None, typer.Option(help="A redis-server to use instead of Valkey.")] = None,
    postgres_binaries: Annotated[Path | None, typer.Option(help="A directory with PostgreSQL's programs.")] = None,
) -> None:
    """Run load under faults and check that nothing is lost; exit with 1 if anything is."""
    if unknown := sorted(set(fault or ()) - FAULTS.keys()):
        raise ConfigurationError(f"there is no fault {unknown[0]!r}; there are: {', '.join(FAULTS)}")
    seed = secrets.randbelow(2**31) if seed is None else seed
    typer.echo(f"seed {seed}")
    configure_logging(LogSettings(), "chaos")
    shape = Shape(seed, redis_binary=redis_binary, postgres_binaries=postgres_binaries)
    wanted = (
        short_plan(seed, shape) if short else plan(seed, tasks=tasks, rounds=rounds, faults=fault or (), shape=shape)
    )
    place = directory or Path(tempfile.mkdtemp(prefix="detectsched-chaos-"))
    place.mkdir(parents=True, exist_ok=True)
    outcome = uvloop.run(run(wanted, place))
    told = report(outcome, seed)
    (place / "report.md").write_text(told)
    typer.echo(told)
    typer.echo(f"journal, logs and data are in {place}")
    raise typer.Exit(0 if outcome.good else 1)


if __name__ == "__main__":
    exit_code_of(lambda: typer.run(chaos))
