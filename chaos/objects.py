"""``python -m chaos.objects``: many objects, each with many tasks, while a runner is killed every other second.

What it asks: no two tasks of an object at once, none before an earlier one, none lost, none with two results, and no
command under two ids. The checker answers all but the last from the history that PostgreSQL keeps of every change.
"""

from __future__ import annotations

import asyncio
import json
import random
import secrets
import tempfile
from pathlib import Path
from typing import Annotated, Any, Final

import httpx
import typer
import uvloop

from chaos.check import violations
from chaos.check.evidence import gather
from chaos.cluster import QUANTUM, SLOTS, TENANTS, Cluster, Shape, cluster
from chaos.faults import FAULTS
from chaos.journal import Accepted, Asked, Journal, Refused, Run, Unknown
from chaos.load import Load
from chaos.run import rest
from chaos.stage import Stage
from detectsched.cli.exits import exit_code_of
from detectsched.clock import monotonic
from detectsched.settings import LogSettings
from detectsched.telemetry import configure_logging

_GROUP: Final = 100
"""Objects whose next tasks are sent in one batch."""
_TENANT: Final = TENANTS[0]
_HIT: Final = "a text with gift card code in it"
_PATIENCE_SECONDS: Final = 1800.0

_COMMANDS: Final = """
SELECT count(*) AS commands, count(DISTINCT task_id) AS tasks FROM command WHERE task_id IS NOT NULL
"""


class Objects:
    """The client: sends the tasks of each object in order, and each again until it is accepted."""

    def __init__(self, system: Cluster, journal: Journal, seed: int, *, objects: int, tasks: int) -> None:
        self._client = httpx.AsyncClient(
            base_url=system.url, timeout=30.0, headers={"Authorization": f"Bearer {system.keys[_TENANT]}"}
        )
        self._journal, self._seed = journal, seed
        self._objects, self._tasks = objects, tasks

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def prepare(self) -> None:
        """Publish a word list, and let hits be followed by a command."""
        words = {"name": "chaos", "words": [{"text": "gift card code", "level": 2}]}
        policy = {"kind": "notify", "min_level": 1}
        for path, body in (("/api/word-lists/chaos", words), ("/api/command-policies/chaos", policy)):
            (await self._client.put(path, json=body)).raise_for_status()

    async def send(self) -> None:
        """Send everything; groups of objects side by side."""
        await asyncio.gather(
            *(
                self._group(range(start, min(start + _GROUP, self._objects)))
                for start in range(0, self._objects, _GROUP)
            )
        )

    async def _group(self, objects: range) -> None:
        for number in range(self._tasks):
            left = {f"{self._seed}-{name}-{number}": f"object {name}" for name in objects}
            while left:
                await self._batch(left, _HIT if number % 10 == 0 else "a text without anything in it")
                if left:
                    await asyncio.sleep(1.0)

    async def _batch(self, left: dict[str, str], text: str) -> None:
        """Send what is left once, and take away what was accepted."""
        lines = [{"kind": "text", "object": name, "text": text, "idempotency_key": key} for key, name in left.items()]
        for key, name in left.items():
            self._journal.write(Asked(self._journal.now(), key, _TENANT, name))
        try:
            answer = await self._client.post(
                "/api/tasks/batch",
                content="\n".join(map(json.dumps, lines)),
                headers={"Content-Type": "application/x-ndjson"},
            )
            results = answer.json()["results"]
        except (httpx.HTTPError, KeyError, ValueError) as error:
            for key in left:
                self._journal.write(Unknown(self._journal.now(), key, type(error).__name__))
            return
        for (key, name), outcome in zip(list(left.items()), results, strict=True):
            if outcome["task"] is None:
                self._journal.write(Refused(self._journal.now(), key, outcome["status"]))
            else:
                task = str(outcome["task"]["task_id"])
                self._journal.write(Accepted(self._journal.now(), key, _TENANT, task, name))
                del left[key]


async def run(directory: Path, seed: int, *, objects: int, tasks: int, pause_seconds: float) -> bool:
    """Carry it out; return whether everything holds."""
    began, kills = monotonic(), 0
    async with cluster(directory, Shape(seed, max_total_pending=2 * objects * tasks)) as system:
        journal = Journal(directory / "journal.jsonl")
        client = Objects(system, journal, seed, objects=objects, tasks=tasks)
        probe = Load(system, journal, seed)
        scheduler = system.settings.scheduler
        stage = Stage(
            system,
            random.Random(seed),  # noqa: S311 - not a secret
            journal,
            scheduler.lease_seconds,
            scheduler.sweep_seconds,
        )
        slots = SLOTS * len(system.of("runner"))
        journal.write(Run(journal.now(), seed, stage.lease, stage.sweep, QUANTUM, slots))
        try:
            await system.start()
            await rest(system, probe)
            await client.prepare()
            sending = asyncio.create_task(client.send())
            while not await _is_done(system, sending, objects * tasks):
                await asyncio.sleep(pause_seconds)
                await FAULTS["runner-killed"](stage)
                kills += 1
                if monotonic() - began > _PATIENCE_SECONDS:
                    break
            await rest(system, probe)
            await asyncio.sleep(stage.lease + stage.sweep)
            async with system.sql() as connection:
                commands = dict(await connection.fetchrow(_COMMANDS))
        finally:
            await client.close()
            await probe.close()
            journal.close()
        evidence = await gather(system.settings, journal.path)
    found = violations(evidence)
    _tell(evidence, found, commands, kills=kills, seconds=monotonic() - began)
    hits = objects * len(range(0, tasks, 10))
    good = commands == {"commands": hits, "tasks": hits} and len(evidence.rows) == objects * tasks
    return good and not any(found.values())


async def _is_done(system: Cluster, sending: asyncio.Task[None], tasks: int) -> bool:
    if not sending.done():
        return False
    sending.result()
    async with system.sql() as connection:
        ended = await connection.fetchval("SELECT count(*) FROM task WHERE state NOT IN ('queued', 'running')")
    return bool(ended >= tasks)


def _tell(evidence: Any, found: dict[str, list[str]], commands: dict[str, int], *, kills: int, seconds: float) -> None:
    starts = sum(change.state == "running" for change in evidence.changes)
    typer.echo(f"{len(evidence.rows)} tasks, {starts} starts, {kills} runners killed, {seconds:.0f} s")
    typer.echo(f"{commands['commands']} commands of {commands['tasks']} tasks with hits")
    for name, wrong in found.items():
        typer.echo(f"{name}: {'holds' if not wrong else f'{len(wrong)} violations'}")
        for line in wrong[:10]:
            typer.echo(f"  {line}")


def main(
    objects: Annotated[int, typer.Option(min=1, help="How many objects.")] = 1000,
    tasks: Annotated[int, typer.Option(min=1, help="How many tasks of each.")] = 50,
    pause: Annotated[float, typer.Option(min=0.1, help="Seconds between one killed runner and the next.")] = 2.0,
    seed: Annotated[int | None, typer.Option(help="Decides which runner is killed.")] = None,
) -> None:
    """Let objects' tasks be worked off while runners are killed; exit with 1 if anything is not as it should be."""
    seed = secrets.randbelow(2**31) if seed is None else seed
    typer.echo(f"seed {seed}")
    configure_logging(LogSettings(level="error"), "chaos")
    place = Path(tempfile.mkdtemp(prefix="detectsched-objects-"))
    good = uvloop.run(run(place, seed, objects=objects, tasks=tasks, pause_seconds=pause))
    typer.echo(f"journal, logs and data are in {place}")
    raise typer.Exit(0 if good else 1)


if __name__ == "__main__":
    exit_code_of(lambda: typer.run(main))
