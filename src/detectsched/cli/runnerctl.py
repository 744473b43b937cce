"""``detectsched runners``: the runners of a running system (``detectsched runner`` is one)."""

from __future__ import annotations

from typing import Annotated

import typer

from detectsched.cli.device import Reason, paused
from detectsched.cli.output import Shown, cell, table
from detectsched.cli.remote import Api, part, remote

app = typer.Typer(no_args_is_help=True, help="Runners: list, drain, resume.", rich_markup_mode=None)

Label = Annotated[str, typer.Argument(help="The runners' label, as the list shows it.")]


@app.command("list")
@remote
async def list_(api: Api) -> Shown:
    """List runners, and labels that are drained."""
    answer = await api.get("/api/runners")
    header = ["RUNNER", "LABEL", "STATE", "LANES", "ACTIVE", "CPU %", "MEMORY %", "GPU", "HEARTBEAT", "REASON"]
    rows = [
        [
            runner["name"],
            runner["label"],
            runner["state"],
            ",".join(f"{lane['lane']}={lane['slots']}" for lane in runner["lanes"]),
            runner["active_tasks"],
            runner["cpu_percent"],
            runner["memory_percent"],
            runner["gpu_available"],
            runner["last_heartbeat"],
            runner["reason"],
        ]
        for runner in answer["items"]
    ]
    drained = [
        f"drained: {label['label']} since {cell(label['since'])}: {cell(label['reason'])}"
        for label in answer["drained"]
    ]
    return Shown(answer, [*table(header, rows), *drained])


@app.command()
@remote
async def drain(api: Api, label: Label, reason: Reason = "") -> Shown:
    """Drain runners: they finish what they have and take nothing new, also after a restart."""
    answer = await api.post(f"/api/runners/{part(label)}/drain", {"reason": reason})
    return paused(f"runner {label}", answer, word="drained")


@app.command()
@remote
async def resume(api: Api, label: Label) -> Shown:
    """Let drained runners work again."""
    return paused(f"runner {label}", await api.post(f"/api/runners/{part(label)}/resume"))
