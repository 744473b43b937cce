"""``detectsched audit``: who did what to what."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from detectsched.cli.output import Shown, table
from detectsched.cli.remote import Api, remote

app = typer.Typer(no_args_is_help=True, help="The audit log: list.", rich_markup_mode=None)


@app.command("list")
@remote
async def list_(
    api: Api,
    actor: Annotated[str | None, typer.Option(help="Only what this one did, as in 'key k3y'.")] = None,
    action: Annotated[str | None, typer.Option(help="Only this, as in pause.")] = None,
    subject: Annotated[str | None, typer.Option(help="Only what was done to this.")] = None,
    mac: Annotated[str | None, typer.Option(help="Only hits in what this device sent.")] = None,
    object_: Annotated[str | None, typer.Option("--object", help="Only hits in what was about this object.")] = None,
    since: Annotated[str | None, typer.Option(help="Only what was done then or later.")] = None,
    until: Annotated[str | None, typer.Option(help="Only what was done before then.")] = None,
    platform: Annotated[bool, typer.Option("--platform", help="What was done to lanes and runners instead.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="Most entries to show.")] = 50,
) -> Shown:
    """List entries of the audit log, the latest first."""
    path = "/api/audit/platform" if platform else "/api/audit"
    wanted = {"actor": actor, "action": action, "subject": subject, "mac": mac, "object": object_}
    items = await api.pages(path, limit=limit, most=500, **wanted, since=since, until=until)
    rows = [
        [
            entry["at"],
            entry["actor"],
            entry["action"],
            entry["subject"],
            entry["outcome"],
            entry["request_id"],
            json.dumps(entry["detail"], ensure_ascii=False),
        ]
        for entry in items
    ]
    return Shown(items, table(["AT", "ACTOR", "ACTION", "SUBJECT", "OUTCOME", "REQUEST", "DETAIL"], rows))
