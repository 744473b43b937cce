"""``detectsched lane``: lanes, which all tenants share."""

from __future__ import annotations

from typing import Annotated

import typer

from detectsched.cli.device import Reason, paused
from detectsched.cli.output import Shown, facts, table
from detectsched.cli.remote import Api, part, remote

app = typer.Typer(no_args_is_help=True, help="Lanes: list, pause, resume, scaling.", rich_markup_mode=None)

Lane = Annotated[str, typer.Argument(help="The lane's name.")]


@app.command("list")
@remote
async def list_(api: Api) -> Shown:
    """List lanes with their load, of all tenants together."""
    answer = await api.get("/api/lanes")
    header = ["LANE", "DEPTH", "RUNNING", "QUEUES", "TENANTS", "OLDEST S", "BACKLOG S", "SLOTS", "RUNNERS", "PAUSED"]
    rows = [
        [
            lane["lane"],
            lane["depth"],
            lane["running"],
            lane["queues"],
            lane["tenants"],
            lane["oldest_wait_seconds"],
            lane["backlog_seconds"],
            lane["capacity"],
            f"{lane['healthy_runners']} of {lane['runners']}",
            lane["pause"]["paused"],
        ]
        for lane in answer["items"]
    ]
    return Shown(answer["items"], table(header, rows))


@app.command()
@remote
async def pause(api: Api, lane: Lane, reason: Reason = "") -> Shown:
    """Pause a lane for all tenants: nothing more is handed out, what runs goes on."""
    return paused(f"lane {lane}", await api.post(f"/api/lanes/{part(lane)}/pause", {"reason": reason}))


@app.command()
@remote
async def resume(api: Api, lane: Lane) -> Shown:
    """Let a paused lane go on."""
    return paused(f"lane {lane}", await api.post(f"/api/lanes/{part(lane)}/resume"))


@app.command()
@remote
async def scaling(api: Api, lane: Lane) -> Shown:
    """Say how many runners a lane should have, and why."""
    answer = await api.get(f"/api/scaling/{part(lane)}")
    return Shown(answer, facts(answer.items()))
