"""One run: a calm backlog, then load under faults, then rest, then the checker."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from chaos.check import violations
from chaos.check.evidence import Evidence, gather
from chaos.cluster import QUANTUM, SLOTS, Cluster, Shape, cluster
from chaos.faults import FAULTS
from chaos.journal import Journal, Run, Seen, Usage
from chaos.load import Load
from chaos.stage import Stage
from detectsched.clock import monotonic
from detectsched.telemetry import get_logger

log = get_logger(__name__)

_REST_SECONDS: Final = 90.0
_BACKLOG: Final = 50
_POOLS: Final = 8.0
"""Connections to PostgreSQL that a process may keep: its pools, and the overflow."""

SHORT: Final = (
    "runner-killed",
    "runner-stopped",
    "dispatcher-killed",
    "api-killed",
    "redis-killed",
    "redis-flushed",
    "redis-old-snapshot",
    "redis-stream-gone",
    "scripts-flushed",
    "postgres-killed",
    "postgres-sessions-ended",
    "runner-without-postgres",
    "link-cut",
    "replies-lost",
)
"""What a run of a minute or so plays: every kind of loss, and none of the long waits that say little more."""

SIGHTS: Final = {
    "fenced": ("write fenced off", "lease lost, nothing written", "leases could not be renewed"),
    "rebuilt": ("queues rebuilt",),
    "recovered": ("recovered tasks of a silent runner",),
}
"""What a run with all faults must have met, and the words of the log that tell of it."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do: at least so many tasks, and these faults in this order with a calm of ``gap`` between."""

    seed: int
    tasks: int
    faults: tuple[str, ...]
    gap_seconds: float = 1.0
    shape: Shape = field(default_factory=Shape)
    expects: tuple[str, ...] = ()


def plan(seed: int, *, tasks: int, rounds: int = 1, faults: Sequence[str] = (), shape: Shape | None = None) -> Plan:
    """Return a plan: all faults (or those named) in an order that the seed decides, so many times over."""
    chance = random.Random(seed)  # noqa: S311 - not a secret
    names = list(faults or FAULTS)
    chosen = [name for _ in range(rounds) for name in chance.sample(names, len(names))]
    sights = ("redelivery", *SIGHTS) if set(chosen) >= set(SHORT) else ()
    return Plan(seed, tasks, tuple(chosen), shape=shape or Shape(seed), expects=(*sorted(set(chosen)), *sights))


def short_plan(seed: int, shape: Shape) -> Plan:
    """Return the plan of CI: what a minute meets only with luck is asked of long runs."""
    whole = plan(seed, tasks=500, faults=SHORT, shape=shape)
    return replace(whole, gap_seconds=0.4, expects=(*sorted(SHORT), "rebuilt"))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a run; ``deaths`` are processes that ended without being told to, with their status."""

    evidence: Evidence
    violations: dict[str, list[str]]
    deaths: dict[str, list[int]]
    seconds: float
    versions: dict[str, str]

    @property
    def good(self) -> bool:
        """Whether everything holds."""
        return not any(self.violations.values()) and not self.deaths


async def run(wanted: Plan, directory: Path) -> Outcome:
    """Carry out a plan; journal, logs and data stay in the directory.

    Raises:
        ConfigurationError: a store cannot be started here.
    """
    began = monotonic()
    async with cluster(directory, wanted.shape) as system:
        journal = Journal(directory / "journal.jsonl")
        load = Load(system, journal, wanted.seed)
        try:
            versions = await _versions(system)
            scheduler = system.settings.scheduler
            stage = Stage(
                system,
                random.Random(wanted.seed),  # noqa: S311 - not a secret
                journal,
                scheduler.lease_seconds,
                scheduler.sweep_seconds,
            )
            journal.write(
                Run(
                    journal.now(),
                    wanted.seed,
                    stage.lease,
                    stage.sweep,
                    QUANTUM,
                    SLOTS * wanted.shape.runners,
                    wanted.expects,
                )
            )
            await _calm(system, load)
            await _note_usage(system, journal, "start")
            async with _watched(system):
                await _storm(stage, load, wanted)
                await rest(system, load)
            await asyncio.sleep(stage.lease + stage.sweep)
            await _note_usage(system, journal, "end")
            _note_sights(system, journal)
        finally:
            await load.close()
            journal.close()
        evidence = await gather(system.settings, journal.path)
        deaths = {name: daemon.deaths for name, daemon in system.daemons.items() if daemon.deaths}
        return Outcome(evidence, violations(evidence), deaths, monotonic() - began, versions)


async def _calm(system: Cluster, load: Load) -> None:
    """Let a backlog be worked off that was there before any runner: what fairness is judged by."""
    others = [name for name in system.daemons if not name.startswith("runner")]
    await system.start(others)
    await _until(system, "the gate open", lambda: _ready(load))
    await load.backlog(_BACKLOG)
    await system.start([name for name in system.daemons if name not in others])
    await _until(system, "the backlog worked off", lambda: _is_over(system))


async def _storm(stage: Stage, load: Load, wanted: Plan) -> None:
    """Play every fault under load, and go on until there were enough tasks."""
    before = load.accepted
    running = [asyncio.create_task(load.run()), asyncio.create_task(load.look())]
    try:
        for name in wanted.faults:
            log.info("fault", name=name, accepted=load.accepted - before)
            await FAULTS[name](stage)
            await asyncio.sleep(wanted.gap_seconds * stage.chance.uniform(0.5, 1.5))
        while load.accepted - before < wanted.tasks:
            await asyncio.sleep(0.2)
            for task in running:
                if task.done():
                    task.result()
    finally:
        load.stop()
        stage.system.heal()
        await asyncio.wait(running, timeout=_REST_SECONDS)
    for task in running:
        task.result()


@asynccontextmanager
async def _watched(system: Cluster) -> AsyncIterator[None]:
    """Start again what ended without being told to; that it did is noted, and fails the run."""

    async def watch() -> None:
        seen: dict[str, int] = {}
        while True:
            await asyncio.sleep(0.5)
            for name, daemon in system.daemons.items():
                if len(daemon.deaths) > seen.get(name, 0) and not daemon.pid:
                    seen[name] = len(daemon.deaths)
                    log.error("died by itself", process=name, status=daemon.deaths[-1])
                    await daemon.start()

    watcher = asyncio.create_task(watch())
    try:
        yield
    finally:
        watcher.cancel()


_LEFT: Final = """
SELECT (SELECT count(*) FROM task WHERE state IN ('queued', 'running'))
     + (SELECT count(*) FROM webhook_delivery WHERE state = 'pending')
"""


async def rest(system: Cluster, load: Load) -> None:
    """Wait until everything that was accepted is over, and Redis holds nothing of it."""
    await _until(system, "the API ready", lambda: _ready(load))
    await _until(system, "every task over", lambda: _is_over(system))


async def _until(system: Cluster, what: str, condition: Any) -> None:
    deadline = monotonic() + _REST_SECONDS
    while not await condition():
        if monotonic() > deadline:
            # The checker tells better than a stack trace what is left.
            log.error("not reached", what=what, directory=str(system.valkey.data.parent))
            return
        await asyncio.sleep(0.1)


async def _ready(load: Load) -> bool:
    return await load.ready()


async def _is_over(system: Cluster) -> bool:
    try:
        async with system.sql() as connection:
            waiting = await connection.fetchval(_LEFT)
        async with system.redis() as client:
            tag = f"{{{system.settings.redis.prefix}:0}}:"
            left = [await client.xlen(f"{tag}stream:{lane}") for lane in system.settings.lanes]
            left.append(int(await client.get(f"{tag}global_pending") or 0))
            left.append(await client.llen(f"{tag}settlement"))
    except Exception as error:  # noqa: BLE001 - a store is just coming back
        log.debug("not yet", error=repr(error))
        return False
    return not waiting and not any(left)


async def _versions(system: Cluster) -> dict[str, str]:
    async with system.redis() as client:
        server = await client.info("server")
    async with system.sql() as connection:
        postgres = str(await connection.fetchval("SHOW server_version"))
    redis = f"Valkey {server['valkey_version']}" if "valkey_version" in server else f"Redis {server['redis_version']}"
    return {"redis": redis, "postgres": f"PostgreSQL {postgres.split(maxsplit=1)[0]}"}


async def _note_usage(system: Cluster, journal: Journal, when: Any) -> None:
    for name, daemon in system.daemons.items():
        if daemon.pid:
            journal.write(Usage(journal.now(), when, name, daemon.usage()))
    async with system.redis() as client:
        memory = (await client.info("memory"))["used_memory"] / 2**20
    async with system.sql() as connection:
        count = await connection.fetchval("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
    most = _POOLS * len(system.daemons)
    # Pools fill when they are needed: at the start they count as full.
    connections = most if when == "start" else float(count)
    journal.write(Usage(journal.now(), when, "stores", {"redis_mb": memory, "connections": connections}))


def _note_sights(system: Cluster, journal: Journal) -> None:
    for what, words in SIGHTS.items():
        count = sum(daemon.said(each) for daemon in system.daemons.values() for each in words)
        journal.write(Seen(journal.now(), what, count))
