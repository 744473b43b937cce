"""``python -m chaos.sweep``: every failpoint, with a process that dies there and one that hangs beyond its lease.

After each the system comes to rest and the checker judges it.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final

import typer
import uvloop

from chaos.check import violations
from chaos.check.evidence import gather
from chaos.cluster import QUANTUM, SLOTS, Shape, cluster
from chaos.journal import Journal, Run
from chaos.load import Load
from chaos.processes import Daemon
from chaos.receiver import receiving
from chaos.run import rest
from chaos.stage import Stage
from chaos.stimuli import EXTRA, OWNERS, STIMULI, Scene, Stimulus
from detectsched.cli.exits import exit_code_of
from detectsched.clock import monotonic
from detectsched.failpoints import NAMES
from detectsched.settings import LogSettings
from detectsched.telemetry import configure_logging

ACTIONS: Final = ("exit", "hang")
POINTS: Final = tuple(sorted(name for name in NAMES if name.partition(".")[0] in OWNERS))
_FIRED: Final = '"event": "failpoint"'
_TRIES: Final = 8
_HIT_SECONDS: Final = 3.0
_KILLED: Final = 137


@dataclass(frozen=True, slots=True)
class Passed:
    """One failpoint that has been met: how long it took to come to rest, and what was wrong then."""

    point: str
    action: str
    seconds: float
    wrong: tuple[str, ...]


async def sweep(cases: Sequence[tuple[str, str]], directory: Path, shape: Shape) -> list[Passed]:
    """Play cases of (failpoint, action) one after the other on one system.

    Raises:
        RuntimeError: a failpoint was not met, however often its stimulus was given.
    """
    async with cluster(directory, shape) as system:
        journal = Journal(directory / "journal.jsonl")
        load = Load(system, journal, shape.seed)
        scheduler = system.settings.scheduler
        chance = random.Random(shape.seed)  # noqa: S311 - not a secret
        stage = Stage(system, chance, journal, scheduler.lease_seconds, scheduler.sweep_seconds)
        slots = SLOTS * shape.runners
        journal.write(Run(journal.now(), shape.seed, stage.lease, stage.sweep, QUANTUM, slots))
        await system.start()
        try:
            async with receiving(journal) as callback:
                return [
                    await _play(Scene(stage, load, _owner(stage, point), callback), point, action)
                    for point, action in cases
                ]
        finally:
            await load.close()
            journal.close()


def _owner(stage: Stage, point: str) -> Daemon:
    return stage.system.of(OWNERS[point.partition(".")[0]])[0]


async def _play(scene: Scene, point: str, action: str) -> Passed:
    system, armed, family = scene.stage.system, scene.armed, point.partition(".")[0]
    spec = "exit" if action == "exit" else f"hang:{scene.stage.lease * 2.5}"
    await armed.terminate()
    await armed.start(DETECTSCHED_FAILPOINTS=f"{point}={spec}", **EXTRA.get(family, {}))
    await system.wait_started(armed)
    await _provoke(scene, point)
    began = monotonic()
    if action == "exit":
        status = await armed.ended()
        armed.deaths.remove(_KILLED)
        if status != _KILLED:
            raise RuntimeError(f"{armed.name} ended with {status} at {point}")
        await armed.start()
    elif family in EXTRA:
        await asyncio.sleep(scene.stage.lease * 2.5)
        await armed.terminate()
        await armed.start()
    if scene.pending:
        await asyncio.wait(scene.pending)
    await rest(system, scene.load)
    seconds = monotonic() - began
    # What a zombie still has to say, it says now.
    await asyncio.sleep(scene.stage.lease if action == "hang" else scene.stage.sweep)
    evidence = await gather(system.settings, scene.stage.journal.path)
    wrong = [f"{name}: {line}" for name, lines in violations(evidence).items() for line in lines]
    wrong += [f"{daemon.name} ended by itself: {daemon.deaths}" for daemon in system.daemons.values() if daemon.deaths]
    return Passed(point, action, seconds, tuple(wrong))


async def _provoke(scene: Scene, point: str) -> None:
    """Give the stimulus until the failpoint is met; other dispatchers sleep until then: it is this one's turn."""
    stimulus = STIMULI.get(point) or STIMULI[point.partition(".")[0]]
    rivals = scene.others("dispatcher") if scene.armed.name.startswith("dispatcher") else []
    for rival in rivals:
        rival.pause()
    try:
        await _repeat(scene, point, stimulus)
    finally:
        for rival in rivals:
            rival.resume()


async def _repeat(scene: Scene, point: str, stimulus: Stimulus) -> None:
    for _ in range(_TRIES):
        given = asyncio.create_task(stimulus(scene))
        deadline = monotonic() + _HIT_SECONDS
        while not (given.done() and monotonic() > deadline):
            if scene.armed.said_now(_FIRED):
                # The client goes on asking; it is answered when the process is back.
                scene.pending.append(given)
                return
            await asyncio.sleep(0.02)
        given.result()
    raise RuntimeError(f"{scene.armed.name} never came to {point}; its words are in {scene.armed.log}")


def cases_of(seed: int, sample: int | None) -> list[tuple[str, str]]:
    """Return all cases, or a sample of them that the seed decides; the hanging ones first."""
    every = [(point, action) for point in POINTS for action in ACTIONS]
    chance = random.Random(seed)  # noqa: S311 - not a secret
    return every if sample is None else chance.sample(every, sample)


def main(
    seed: Annotated[int | None, typer.Option(help="Decides which are sampled, and all chance of the client.")] = None,
    sample: Annotated[int | None, typer.Option(min=1, help="Only so many cases.")] = None,
    point: Annotated[list[str] | None, typer.Option(help="Only these failpoints; may be given several times.")] = None,
    alone: Annotated[bool, typer.Option("--alone", help="With one dispatcher instead of two.")] = False,
    redis_binary: Annotated[Path | None, typer.Option(help="A redis-server to use instead of Valkey.")] = None,
    postgres_binaries: Annotated[Path | None, typer.Option(help="A directory with PostgreSQL's programs.")] = None,
) -> None:
    """Let processes die and hang at their failpoints; exit with 1 if anything is lost by it."""
    seed = secrets.randbelow(2**31) if seed is None else seed
    typer.echo(f"seed {seed}")
    configure_logging(LogSettings(level="warning"), "sweep")
    shape = Shape(seed, dispatchers=1 if alone else 2, runners=2)
    shape = replace(shape, redis_binary=redis_binary, postgres_binaries=postgres_binaries)
    cases = [case for case in cases_of(seed, sample) if not point or case[0] in point]
    passed = uvloop.run(sweep(cases, Path(tempfile.mkdtemp(prefix="detectsched-sweep-")), shape))
    typer.echo("| failpoint | action | at rest after (s) | |\n| --- | --- | ---: | --- |")
    for each in passed:
        typer.echo(f"| {each.point} | {each.action} | {each.seconds:.1f} | {'; '.join(each.wrong) or 'holds'} |")
    raise typer.Exit(1 if any(each.wrong for each in passed) else 0)


if __name__ == "__main__":
    exit_code_of(lambda: typer.run(main))
