"""The checker finds nothing wrong where nothing is, and each violation that is planted, by its invariant."""

# ruff: noqa: S608 - the parts put together are constants of this file

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from chaos.check import INVARIANTS, Evidence, violations
from chaos.check.evidence import gather
from chaos.check.fairness import windows
from chaos.journal import Accepted, Asked, Fault, Probe, Record, Refused, Run, Sample, Told, Usage
from detectsched.settings import Settings
from tests.chaos.small_run import RUNNER, SmallRun, lived

Key = TypeVar("Key", bound=Record)

FAILED = "(SELECT id FROM task WHERE state = 'failed' LIMIT 1)"
SUCCEEDED = "(SELECT id FROM task WHERE state = 'succeeded' AND object IS NULL LIMIT 1)"
OF_OBJECT = "(SELECT task_id FROM chaos_history WHERE object = 'door 1' ORDER BY seq LIMIT 1)"


async def judged(run: SmallRun, change: Callable[[Evidence], None] = lambda _: None) -> set[str]:
    """Return the short names of the invariants that do not hold."""
    evidence = await gather(run.settings, run.journal.path)
    change(evidence)
    return {name.partition(" ")[0] for name, wrong in violations(evidence).items() if wrong}


async def test_a_blameless_run_is_not_blamed(settings: Settings, tmp_path: Path) -> None:
    """Devices and objects, a retry, a failure, a cancel, an outage that was seen: nothing is wrong with that."""
    async with lived(settings, tmp_path / "journal") as run:
        evidence = await gather(settings, run.journal.path)
        assert violations(evidence) == {name: [] for name in INVARIANTS}
        # None of it holds because nothing was looked at.
        assert len(evidence.rows) == 19
        assert {row.state for row in evidence.rows} == {"succeeded", "failed", "cancelled"}
        assert sum(interval.object is not None for interval in evidence.intervals()) >= 6
        assert evidence.run is not None
        assert sum(sum(window.served.values()) for window in windows(evidence, evidence.run)) >= 8


def sql(statement: str) -> Callable[[SmallRun], Awaitable[Any]]:
    """Return what changes the ledger behind everybody's back."""

    async def plant(run: SmallRun) -> None:
        async with run.ledger.connection() as connection:
            await connection.execute(statement)

    return plant


def redis(*words: str | int) -> Callable[[SmallRun], Awaitable[Any]]:
    """Return what changes Redis; ``@`` stands for the prefix of all keys."""

    async def plant(run: SmallRun) -> None:
        told = [word.replace("@", run.queue.keys.tag) if isinstance(word, str) else word for word in words]
        await run.clients.commands.execute_command(*told)

    return plant


PLANTED_IN_STORES = {
    "a task is gone": ({"I1"}, sql(f"DELETE FROM task WHERE id = {SUCCEEDED}")),
    "a task came from nowhere": ({"I1"}, sql(f"UPDATE task SET idempotency_key = 'x' WHERE id = {SUCCEEDED}")),
    "a state nobody knows": ({"I1", "I4", "I8"}, sql(f"UPDATE task SET state = 'lost' WHERE id = {FAILED}")),
    "a task left behind": ({"I2"}, redis("HSET", "@task:01890000-0000-7000-8000-000000000000", "state", "queued")),
    "an entry left behind": (
        {"I2"},
        redis("XADD", "@stream:text", "*", "t", "01890000-0000-7000-8000-000000000000", "d", 1),
    ),
    "a key without an owner": ({"I2"}, redis("SET", "@stray", 1)),
    "a key of somebody else": ({"I2"}, redis("SET", "stray", 1)),
    "two tasks of an object at once": (
        {"I3"},
        sql(
            f"UPDATE chaos_history SET at = at + interval '1 second' WHERE before = 'running' AND task_id = {OF_OBJECT}"
        ),
    ),
    "a judgement on a failure": (
        {"I4"},
        sql(f"UPDATE detection SET state = 'success' WHERE task_id = {FAILED}"),
    ),
    "a success without a judgement": ({"I4"}, sql(f"DELETE FROM detection WHERE task_id = {SUCCEEDED}")),
    "a judgement that never ended": (
        {"I4"},
        sql(f"UPDATE detection SET state = 'processing' WHERE task_id = {FAILED}"),
    ),
    "an end that was none": ({"I4"}, sql(f"UPDATE task SET state = 'dead' WHERE id = {FAILED}")),
    "two messages about one task": (
        {"I4"},
        sql(
            "INSERT INTO command (id, tenant, task_id, kind, body) SELECT gen_random_uuid(), 'default', "
            f"{SUCCEEDED}, 'webhook', jsonb_build_object('n', n) FROM generate_series(1, 2) n"
        ),
    ),
    "a message that never came": (
        {"I4"},
        sql(
            "INSERT INTO webhook_delivery (message_id, tenant, channel, url, task_id, event, body, state) "
            f"VALUES (gen_random_uuid(), 'default', 'c', 'http://x', {FAILED}, 'task.ended', '{{}}', 'delivered')"
        ),
    ),
    "an end that was not told": ({"I4"}, sql(f"UPDATE task SET callback_url = 'http://x' WHERE id = {FAILED}")),
    "a fence that went back": ({"I5"}, sql(f"UPDATE task SET fence = 0 WHERE id = {FAILED}")),
    "a fence that jumped": ({"I5"}, sql(f"UPDATE task SET fence = fence + 1 WHERE id = {FAILED}")),
    "a counter too high": ({"I6"}, redis("SET", "@global_pending", 1)),
    "a counter of a tenant": ({"I6"}, redis("HSET", "@tenant:pending", "default", -1)),
}


@pytest.mark.parametrize("what", PLANTED_IN_STORES)
async def test_it_finds_what_is_wrong_in_the_stores(settings: Settings, tmp_path: Path, what: str) -> None:
    """One thing is changed behind everybody's back."""
    expected, plant = PLANTED_IN_STORES[what]
    async with lived(settings, tmp_path / "journal") as run:
        await plant(run)
        assert await judged(run) == expected
        await run.clients.commands.flushall()


async def test_it_finds_an_open_task_that_redis_does_not_know(settings: Settings, tmp_path: Path) -> None:
    """Accepted, never queued, and nobody has noticed."""
    async with lived(settings, tmp_path / "journal") as run:
        await sql(f"UPDATE task SET state = 'queued', finished_at = NULL WHERE id = {FAILED}")(run)
        assert {"I2", "I4", "I8"} <= await judged(run)


def change(evidence: Evidence, kind: type[Key], how: Callable[[Key], Record]) -> None:
    """Change the journal's records of a kind."""
    evidence.journal = [how(record) if isinstance(record, kind) else record for record in evidence.journal]


def answered_twice(evidence: Evidence) -> None:
    """Let a key be answered with two tasks."""
    first, second = evidence.records(Accepted)[:2]
    evidence.journal.append(msgspec.structs.replace(first, task=second.task))


def lost(evidence: Evidence) -> None:
    """Let the client have been told of a task that is nowhere."""
    told = evidence.records(Accepted)[0]
    evidence.journal += [
        msgspec.structs.replace(evidence.records(Asked)[0], key="lost"),
        msgspec.structs.replace(told, key="lost", task="01890000-0000-7000-8000-000000000000"),
    ]


def swapped(evidence: Evidence) -> None:
    """Let the last task of an object have been accepted before the first was asked for."""
    asked = next(record for record in evidence.records(Asked) if record.key == "object 0")
    early = {Asked: asked.at - 2, Accepted: asked.at - 1}
    evidence.journal = [
        msgspec.structs.replace(record, at=early[type(record)])
        if isinstance(record, Asked | Accepted) and record.key == "object 4"
        else record
        for record in evidence.journal
    ]


def one_after_the_other(evidence: Evidence) -> None:
    """Let one device be served to its end before the other begins."""
    run = evidence.run
    assert run is not None
    starts = [i for i, each in enumerate(evidence.changes) if each.state == "running" and each.object is None]
    at = [evidence.changes[i].at for i in starts]
    for i, moment in zip(sorted(starts, key=lambda i: evidence.changes[i].queue), at, strict=True):
        evidence.changes[i] = replace(evidence.changes[i], at=moment)


def never_taken_over(evidence: Evidence) -> None:
    """Let a runner be killed, and its task come back after a minute."""
    i = next(i for i, each in enumerate(evidence.changes) if each.before == "running" and each.object is None)
    ended = evidence.changes[i]
    begun = next(each for each in evidence.changes if each.task_id == ended.task_id and each.state == "running")
    evidence.changes[i] = replace(ended, at=ended.at + 60)
    pid = RUNNER.split(":")[1]
    evidence.journal += [Fault(begun.at, "runner-killed", phase, pid) for phase in ("begin", "end")]


def blind(evidence: Evidence) -> None:
    """Let the API have been ready while it could not be."""
    change(evidence, Probe, lambda probe: msgspec.structs.replace(probe, ready=True))


PLANTED_IN_EVIDENCE: dict[str, tuple[set[str], Callable[[Evidence], None]]] = {
    "a key with two tasks": ({"I1"}, answered_twice),
    "a promise without a task": ({"I1"}, lost),
    "an order that was not kept": ({"I3"}, swapped),
    "a message with two bodies": (
        {"I4"},
        lambda evidence: evidence.journal.extend(
            Told(evidence.journal[0].at, "01890000-0000-7000-8000-000000000000", digest) for digest in ("a", "b")
        ),
    ),
    "a negative sample": (
        {"I6"},
        lambda evidence: change(evidence, Sample, lambda sample: Sample(sample.at, {"global_pending": -1})),
    ),
    "a device that had to wait for another": ({"I7"}, one_after_the_other),
    "a task that nobody took over": ({"I8"}, never_taken_over),
    "a ready probe that saw nothing": ({"I8"}, blind),
    "an answer that nobody may get": (
        {"I8"},
        lambda evidence: evidence.journal.append(Refused(evidence.journal[0].at, "device 1", 500)),
    ),
    "a store that has grown": (
        {"I9"},
        lambda evidence: change(
            evidence, Usage, lambda u: Usage(u.at, u.when, u.who, {"redis_mb": 1.0 + 9 * (u.when == "end")})
        ),
    ),
    "a fault that did not come": (
        {"I10"},
        lambda evidence: change(evidence, Run, lambda run: msgspec.structs.replace(run, expects=("disk-full",))),
    ),
}


@pytest.mark.parametrize("what", PLANTED_IN_EVIDENCE)
async def test_it_finds_what_is_wrong_in_the_story(settings: Settings, tmp_path: Path, what: str) -> None:
    """The client, or the ledger's history, tells another story than the stores."""
    expected, plant = PLANTED_IN_EVIDENCE[what]
    async with lived(settings, tmp_path / "journal") as run:
        assert await judged(run, plant) == expected


async def test_the_program_tells_and_fails(settings: Settings, tmp_path: Path) -> None:
    """``python -m chaos.check`` exits with 1 and names the invariant."""
    async with lived(settings, tmp_path / "journal") as run:
        await run.clients.commands.incr(run.queue.keys.named("global_pending"))
        stores = (settings.redis.url.get_secret_value(), settings.postgres.url.get_secret_value())
        program = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "chaos.check", "--redis-url", stores[0], "--postgres-url", stores[1]),
            *("--journal", str(run.journal.path)),
            stdout=asyncio.subprocess.PIPE,
        )
        told, _ = await program.communicate()
    assert program.returncode == 1
    assert "I6 counters: 1 violations" in told.decode()
    assert "I1 conservation: holds" in told.decode()
