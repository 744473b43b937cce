"""Commands that call the API of a running system."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from detectsched.cli.output import Output, Shown, cell, facts, table
from detectsched.db.word_lists import publish
from detectsched.task import TaskError, TaskState
from detectsched.wordlist import Word
from tests.api.rig import MAC, Rig
from tests.api.test_dead_letters import die
from tests.api.test_tasks import submit
from tests.cli.conftest import Shell

KNOWN = "aa:bb:cc:dd:ee:01"


async def test_tasks(rig: Rig, shell: Shell) -> None:
    """Get, list, why, cancel; as a table and as the API's own document."""
    async with rig.client() as client:
        task_id, other = await submit(client), await submit(client)
    got = await shell("task", "get", task_id, "-o", "json")
    assert (got.document["id"], got.document["state"]) == (task_id, "queued")
    listed = await shell("task", "list", "--mac", MAC, "--limit", "1")
    assert [line.split()[:2] for line in listed.out.splitlines()] == [["ID", "STATE"], [other, "queued"]]
    why = await shell("task", "why", other)
    assert why.out.splitlines()[1].startswith("It waits: no runner serves the lane text")
    assert "behind_own: 1 tasks of its own queue are before it" in why.out
    assert "start: cannot be told" in why.out
    assert (await shell("task", "why", other, "--output", "json")).document["places"]["ahead"] == 1
    cancelled = await shell("task", "cancel", task_id)
    assert (cancelled.status, cancelled.out) == (0, f"{task_id} is cancelled\n")
    again = await shell("task", "cancel", task_id)
    assert (again.status, again.err) == (1, "detectsched: the task has ended already: it is cancelled\n")


async def test_a_running_and_a_judged_task(rig: Rig, shell: Shell) -> None:
    """One that runs is told to stop; one that failed shows why."""
    async with rig.client() as client:
        task_id = await submit(client)
    [started] = await rig.begin()
    assert "It does not wait: it runs on host:1:boot" in (await shell("task", "why", task_id)).out
    assert "being stopped" in (await shell("task", "cancel", task_id)).out
    await rig.finish(started, TaskState.FAILED, error=TaskError("undecodable_image", "cut short"))
    assert "undecodable_image: cut short" in (await shell("task", "get", task_id)).out


async def test_devices_objects_and_the_tenant(rig: Rig, shell: Shell) -> None:
    """List, show, set, pause and resume."""
    async with rig.client() as client:
        await submit(client)
        await submit(client, mac=None, object="case 17/b")
    changed = await shell("device", "set", MAC, "--weight", "2", "--in-flight", "3", "--name", "前门")
    assert changed.status == 0, changed.err
    listed = (await shell("device", "list")).out.splitlines()
    assert listed[1].split()[:6] == [KNOWN, "前门", "1", "0", "2", "3"]
    paused = await shell("device", "pause", MAC, "--reason", "floods")
    assert paused.out.startswith(f"device {MAC} is paused since 20")
    assert paused.out.endswith("(floods)\n")
    shown = await shell("device", "show", MAC)
    assert "floods" in shown.out
    assert (await shell("device", "resume", MAC)).out == f"device {MAC} goes on\n"
    assert (await shell("device", "set", MAC, "--weight", "default", "-o", "json")).document["weight"] is None
    of_object = (await shell("object", "show", "CASE 17/b")).out
    assert "case 17/b" in of_object
    assert "the tenant's defaults" in of_object
    await publish(rig.ledger, "acme", "strict", [Word("x")], name="S", is_default=False, by="test")
    assert "strict" in (await shell("object", "set", "case 17/b", "--word-list", "strict")).out
    reset = await shell("object", "set", "case 17/b", "--word-list", "default", "-o", "json")
    assert reset.document["word_lists"] is None
    assert "is paused" in (await shell("object", "pause", "Case 17/b")).out
    assert (await shell("object", "resume", "case 17/b")).status == 0
    tenant = await shell("tenant", "set", "--device-weight", "3", "--weight", "2", "-o", "json")
    assert (tenant.document["device_weight"], tenant.document["weight"]) == (3.0, 2.0)
    assert "is paused" in (await shell("tenant", "pause", "--reason", "r")).out
    assert "since 20" in (await shell("tenant", "show")).out
    assert (await shell("tenant", "resume")).status == 0
    assert await rig.queue.paused() == {}


async def test_lanes_and_runners(rig: Rig, shell: Shell) -> None:
    """List, pause, drain, resume."""
    await rig.report_runner("left", slots="ocr=1,text=4")
    assert "is paused" in (await shell("lane", "pause", "text")).out
    lanes = (await shell("lane", "list")).out.splitlines()
    assert [line.split()[0] for line in lanes] == ["LANE", "ocr", "text"]
    assert lanes[2].endswith("yes")
    assert (await shell("lane", "resume", "text")).out == "lane text goes on\n"
    assert (await shell("lane", "scaling", "text", "-o", "json")).document["desired"] == 0
    assert "is drained" in (await shell("runners", "drain", "left", "--reason", "new card")).out
    listed = (await shell("runners", "list")).out.splitlines()
    assert listed[1].split()[:4] == ["host:1", "left", "healthy", "ocr=1,text=4"]
    assert listed[2].startswith("drained: left since 20")
    assert (await shell("runners", "resume", "left")).out == "runner left goes on\n"


async def test_dead_letters(rig: Rig, shell: Shell) -> None:
    """List, groups, a dry run, a re-drive with the expected count, a purge."""
    async with rig.client() as client:
        for reason in ("runner_lost", "runner_lost", "engine_crashed"):
            await die(rig, client, reason)
    assert [row["reason"] for row in (await shell("dlq", "list", "--limit", "2", "-o", "json")).document] == [
        "engine_crashed",
        "runner_lost",
    ]
    groups = (await shell("dlq", "groups")).out.splitlines()
    assert [line.split()[:2] for line in groups[1:]] == [["runner_lost", "2"], ["engine_crashed", "1"], ["3", "in"]]
    dry = await shell("dlq", "redrive", "--reason", "runner_lost", "--dry-run")
    assert dry.out == "2 dead letters would be driven again; nothing was done\n"
    wrong = await shell("dlq", "redrive", "--reason", "runner_lost", "--expect", "3")
    assert wrong.status == 1
    assert wrong.err.startswith("detectsched: 2 dead letters match the filter, not 3")
    right = await shell("dlq", "redrive", "--reason", "runner_lost", "--expect", "2", "--rate", "5/s")
    assert right.out == "2 of 2 dead letters are tasks again\n"
    assert (await shell("dlq", "redrive", "--reason", "runner_lost", "--expect", "2")).status == 3
    assert (await shell("dlq", "purge", "--expect", "1")).out == "1 of 1 dead letters are gone\n"
    assert (await shell("dlq", "purge")).status == 2
    assert (await shell("dlq", "redrive", "--rate", "fast", "--expect", "1")).status == 2


async def test_exit_statuses_say_what_went_wrong(rig: Rig, shell: Shell, tmp_path: Path) -> None:
    """2 used wrongly, 3 not found, 75 try again later, 1 anything else; a sentence each."""
    missing = await shell("task", "get", str(uuid4()))
    assert (missing.status, missing.err) == (3, "detectsched: there is no such task\n")
    assert (await shell("task", "get", "nonsense")).status == 2
    wrong = await shell("device", "set", MAC, "--weight", "-1")
    assert wrong.status == 2
    assert "weight" in wrong.err
    assert (await shell("device", "set", MAC, "--weight", "heavy")).status == 2
    away = await shell("lane", "list", "--url", "http://127.0.0.1:1")
    assert away.status == 75
    assert "no API answers at http://127.0.0.1:1" in away.err
    assert (await shell("lane", "list", "--url", "127.0.0.1")).status == 2
    assert (await shell("lane", "list", DETECTSCHED_KEY="ds_x")).status == 1
    nobody = await shell("lane", "list", "--data", str(tmp_path), DETECTSCHED_KEY=None)
    assert nobody.status == 2
    assert "DETECTSCHED_KEY" in nobody.err
    (tmp_path / "admin.key").write_text(f"{rig.keys['boss']}\n")
    assert (await shell("lane", "list", "--data", str(tmp_path), DETECTSCHED_KEY=None)).status == 0
    await rig.clients.commands.flushall()
    assert (await shell("lane", "pause", "text")).status == 75


async def test_variables_of_callers_are_no_settings(rig: Rig, shell: Shell, postgres_variable: dict[str, str]) -> None:
    """Whoever exports them may run daemons and administration from the same shell."""
    assert (await shell("db", "check", **postgres_variable)).status == 0
    made = await shell("key", "create", "x", "--scopes", "read,operate", "--tenant", "acme", **postgres_variable)
    assert made.status == 0, made.err
    assert (await shell("lane", "pause", "text", "--key", made.out.strip())).status == 0
    assert (await shell("tenant", "pause", "--key", made.out.strip())).status == 1


def test_help_is_quick() -> None:
    """It loads nothing that commands need."""
    code = (
        "import sys, detectsched.cli.main\n"
        "heavy = {'httpx', 'sqlalchemy', 'asyncpg', 'redis', 'fastapi', 'numpy', 'pydantic', 'asyncio', 'structlog'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"),
        ("", "-"),
        (True, "yes"),
        (False, "no"),
        (0.125, "0.125"),
        (7, "7"),
        ("2026-11-30T00:00:00.123456Z", "2026-11-30T00:00:00Z"),
        ("2026-11-30T00:00:00.123456+00:00", "2026-11-30T00:00:00Z"),
        ("evil\x1b[2J\nname", "evil [2J name"),
    ],
)
def test_cells(value: object, shown: str) -> None:
    """Short, on one line, and harmless to a terminal."""
    assert cell(value) == shown


def test_tables_are_aligned_also_with_wide_characters() -> None:
    """A Chinese character takes two columns."""
    assert table(["A", "B"], [["前门", 1], ["x", 2]]) == ["A     B", "前门  1", "x     2"]
    assert facts([("a", 1), ("long", None)]) == ["a     1", "long  -"]
    assert Shown({"a": "前"}, ["x"]).render(Output.JSON) == '{\n  "a": "前"\n}'
