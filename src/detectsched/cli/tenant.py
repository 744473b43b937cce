"""``detectsched tenant``: the tenant that the API key belongs to."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from detectsched.cli.device import Burst, Rate, Reason, Weight, paused, weight_of
from detectsched.cli.output import Shown, cell, facts
from detectsched.cli.remote import Api, remote

app = typer.Typer(no_args_is_help=True, help="The key's tenant: show, change, pause.", rich_markup_mode=None)


@app.command()
@remote
async def show(api: Api) -> Shown:
    """Show the tenant."""
    return _shown(await api.get("/api/tenant"))


@app.command("set")
@remote
async def set_(
    api: Api,
    device_weight: Annotated[
        str | None, typer.Option(help="Weight of devices that have none of their own; 'default' for 1.")
    ] = None,
    weight: Weight = None,
    rate: Rate = None,
    burst: Burst = None,
    encrypt_at_rest: Annotated[
        bool | None,
        typer.Option("--encrypt-at-rest/--plain-at-rest", help="Encrypt new tasks where they are kept, or do not."),
    ] = None,
) -> Shown:
    """Change what the tenant may have; its own weight and rate need a key with the scope operate."""
    changes: dict[str, Any] = {
        field: value
        for field, value in {"rate": rate, "burst": burst, "encrypt_at_rest": encrypt_at_rest}.items()
        if value is not None
    }
    for field, text in {"device_weight": device_weight, "weight": weight}.items():
        if text is not None:
            changes[field] = weight_of(text)
    return _shown(await api.patch("/api/tenant", changes))


@app.command()
@remote
async def pause(api: Api, reason: Reason = "") -> Shown:
    """Pause the tenant: nothing more of it is started, what runs goes on."""
    return paused("the tenant", await api.post("/api/tenant/pause", {"reason": reason}))


@app.command()
@remote
async def resume(api: Api) -> Shown:
    """Let the tenant go on."""
    return paused("the tenant", await api.post("/api/tenant/resume"))


def _shown(tenant: dict[str, Any]) -> Shown:
    names = ("id", "name", "weight", "device_weight", "rate", "burst", "encrypt_at_rest", "backlog")
    state = tenant["pause"]
    told = f"since {cell(state['since'])}: {cell(state['reason'])}" if state["paused"] else False
    return Shown(tenant, facts([*((name, tenant[name]) for name in names), ("paused", told)]))
