"""``python -m chaos.check``: judge a run by its journal and its stores."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated, Final

import typer
from pydantic import SecretStr

from chaos.check import INVARIANTS, violations
from chaos.check.evidence import gather
from detectsched.cli.exits import exit_code_of
from detectsched.settings import PostgresSettings, RedisSettings, Settings

SHOWN: Final = 20
"""Violations of one invariant that are told; the rest is a number."""


def check(
    redis_url: Annotated[str, typer.Option(help="Redis or Valkey of the system.")],
    postgres_url: Annotated[str, typer.Option(help="PostgreSQL of the system.")],
    journal: Annotated[
        Path | None, typer.Option(help="What the client saw; without it the stores alone are judged.")
    ] = None,
    prefix: Annotated[str, typer.Option(help="First part of every Redis key.")] = "sensitive",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check the invariants of a system at rest; exit with 1 if one does not hold."""
    settings = Settings(
        redis=RedisSettings(url=SecretStr(redis_url), prefix=prefix),
        postgres=PostgresSettings(url=SecretStr(postgres_url), pool_size=1, read_pool_size=1),
    )
    evidence = asyncio.run(gather(settings, journal or ()))
    found = violations(evidence)
    if as_json:
        typer.echo(json.dumps({"tasks": len(evidence.rows), "violations": found}, indent=2))
    else:
        typer.echo(
            f"{len(evidence.rows)} tasks, {len(evidence.changes)} changes, {len(evidence.journal)} journal records"
        )
        for name in INVARIANTS:
            wrong = found[name]
            typer.echo(f"{name}: {f'{len(wrong)} violations' if wrong else 'holds'}")
            for line in wrong[:SHOWN]:
                typer.echo(f"  {line}")
    raise typer.Exit(1 if any(found.values()) else 0)


if __name__ == "__main__":
    exit_code_of(lambda: typer.run(check))
