"""Reports, the audit log and the recount at the command line."""

from __future__ import annotations

from datetime import timedelta

from detectsched.clock import utc_now
from detectsched.db.statistics import count_due
from detectsched.task import TaskState
from tests.api.rig import MAC, Rig
from tests.api.test_detections import report
from tests.api.test_tasks import submit
from tests.cli.conftest import Shell


async def test_reports_and_audit(rig: Rig, shell: Shell) -> None:
    """What ended, what was found, who did what."""
    async with rig.client() as client:
        await submit(client)
        [started] = await rig.begin()
        await rig.finish(started, TaskState.SUCCEEDED)
        await client.post("/api/decter", json=report())
    await count_due(rig.ledger, limit=10)
    told = await shell("report", "tasks", "--by", "total", "--group", "mac", "--group", "state")
    assert [line.split()[:3] for line in told.out.splitlines()] == [
        ["MAC", "STATE", "TASKS"],
        [MAC.lower(), "reported", "1"],
        [MAC.lower(), "succeeded", "1"],
    ]
    words = (await shell("report", "words")).out.splitlines()
    assert [line.split()[-1] for line in words] == ["HITS", "2", "1"]
    assert (await shell("report", "words", "--limit", "1", "-o", "json")).document["items"][0]["hits"] == 2
    assert (await shell("device", "pause", MAC)).status == 0
    listed = (await shell("audit", "list", "--action", "pause")).out.splitlines()
    assert [line.split()[3] for line in listed[1:]] == ["pause"]
    assert (await shell("audit", "list", "--platform")).status == 0


async def test_recount(rig: Rig, shell: Shell, postgres_variable: dict[str, str]) -> None:
    """Right; then something is broken, told, and mended."""
    async with rig.client() as client:
        await client.post("/api/decter", json=report())
    await count_due(rig.ledger, limit=10)
    days = ["--since", f"{utc_now() - timedelta(days=1):%Y-%m-%d}"]
    good = await shell("report", "recount", *days, **postgres_variable)
    assert (good.status, [line.split()[1] for line in good.out.splitlines()]) == (0, ["right", "right"])
    async with rig.ledger.connection() as connection:
        await connection.execute("UPDATE stat_device SET tasks = tasks + 1")
    bad = await shell("report", "recount", *days, **postgres_variable)
    assert bad.status == 1
    assert "1 rows differ" in bad.out
    assert "stat_device: stored" in bad.out
    mended = await shell("report", "recount", "--repair", *days, **postgres_variable)
    assert (mended.status, "mended" in mended.out) == (0, True)
    assert (await shell("report", "recount", *days, **postgres_variable)).status == 0
    old = await shell("report", "recount", "--since", "2020-01-01", **postgres_variable)
    assert "sums are kept since" in old.err
    wrong = await shell("report", "recount", "--since", "yesterday", **postgres_variable)
    assert "'yesterday' is no day" in wrong.err
