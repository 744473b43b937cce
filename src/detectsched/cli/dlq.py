"""``detectsched dlq``: dead letters, the tasks that were given up on."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from detectsched.cli.output import Shown, table
from detectsched.cli.remote import Api, remote
from detectsched.errors import InvalidRequest
from detectsched.task import TaskKind

app = typer.Typer(no_args_is_help=True, help="Dead letters: list, groups, redrive, purge.", rich_markup_mode=None)

Reason = Annotated[str | None, typer.Option(help="Only those that died of this, as in runner_lost.")]
Lane = Annotated[str | None, typer.Option(help="Only those of this lane.")]
Mac = Annotated[str | None, typer.Option(help="Only those of this device.")]
Object = Annotated[str | None, typer.Option("--object", help="Only those of this object.")]
Kind = Annotated[TaskKind | None, typer.Option(help="Only images, or only texts.")]
Since = Annotated[str | None, typer.Option(help="Only those that died then or later, as 2026-12-24T08:00:00Z.")]
Until = Annotated[str | None, typer.Option(help="Only those that died before then.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say how many they are.")]
Expect = Annotated[
    int | None, typer.Option(min=0, help="How many they should be; with another number nothing is done.")
]


@app.command("list")
@remote
async def list_(
    api: Api,
    reason: Reason = None,
    lane: Lane = None,
    mac: Mac = None,
    object_: Object = None,
    kind: Kind = None,
    since: Since = None,
    until: Until = None,
    limit: Annotated[int, typer.Option(min=1, help="Most dead letters to show.")] = 50,
) -> Shown:
    """List dead letters, the latest first."""
    wanted = _filter(reason, lane, mac, object_, kind, since, until)
    items = await api.pages("/api/dead-letters", limit=limit, most=500, **wanted)
    rows = [
        [
            letter["id"],
            letter["lane"],
            letter["mac"] or letter["object"],
            letter["died_at"],
            letter["attempts"],
            letter["reason"],
            letter["detail"],
        ]
        for letter in items
    ]
    return Shown(items, table(["ID", "LANE", "OF", "DIED", "ATTEMPTS", "REASON", "DETAIL"], rows))


@app.command()
@remote
async def groups(
    api: Api,
    reason: Reason = None,
    lane: Lane = None,
    mac: Mac = None,
    object_: Object = None,
    kind: Kind = None,
    since: Since = None,
    until: Until = None,
) -> Shown:
    """Count dead letters by reason, the most frequent first."""
    wanted = _filter(reason, lane, mac, object_, kind, since, until)
    answer = await api.get("/api/dead-letters/groups", **wanted)
    rows = [[group["reason"], group["count"], group["first_at"], group["last_at"]] for group in answer["items"]]
    return Shown(answer, [*table(["REASON", "COUNT", "FIRST", "LAST"], rows), f"{answer['count']} in all"])


@app.command()
@remote
async def redrive(
    api: Api,
    reason: Reason = None,
    lane: Lane = None,
    mac: Mac = None,
    object_: Object = None,
    kind: Kind = None,
    since: Since = None,
    until: Until = None,
    dry_run: DryRun = False,
    expect: Expect = None,
    rate: Annotated[str | None, typer.Option(help="How many may start per second, as 5 or 5/s.")] = None,
) -> Shown:
    """Try dead letters again, each as a new task. Begin with --dry-run, then give the number with --expect."""
    body = _action(_filter(reason, lane, mac, object_, kind, since, until), dry_run=dry_run, expect=expect)
    if rate is not None:
        body["rate_per_second"] = _per_second(rate)
    answer = await api.post("/api/dead-letters/redrive", body)
    if dry_run:
        return Shown(answer, [f"{answer['matched']} dead letters would be driven again; nothing was done"])
    lines = [f"{answer['redriven']} of {answer['matched']} dead letters are tasks again"]
    if answer["left"]:
        lines.append(f"{answer['left']} are left, since there is no room for more now: run it again with --expect")
    return Shown(answer, lines)


@app.command()
@remote
async def purge(
    api: Api,
    reason: Reason = None,
    lane: Lane = None,
    mac: Mac = None,
    object_: Object = None,
    kind: Kind = None,
    since: Since = None,
    until: Until = None,
    dry_run: DryRun = False,
    expect: Expect = None,
) -> Shown:
    """Remove dead letters for good, with their images. Begin with --dry-run, then give the number with --expect."""
    body = _action(_filter(reason, lane, mac, object_, kind, since, until), dry_run=dry_run, expect=expect)
    answer = await api.post("/api/dead-letters/purge", body)
    if dry_run:
        return Shown(answer, [f"{answer['matched']} dead letters would be removed; nothing was done"])
    lines = [f"{answer['purged']} of {answer['matched']} dead letters are gone"]
    if answer["left"]:
        lines.append(f"{answer['left']} are left, since one request removes only so many: run it again with --expect")
    return Shown(answer, lines)


def _filter(
    reason: str | None,
    lane: str | None,
    mac: str | None,
    object_: str | None,
    kind: TaskKind | None,
    since: str | None,
    until: str | None,
) -> dict[str, str]:
    said = {
        "reason": reason,
        "lane": lane,
        "mac": mac,
        "object": object_,
        "kind": None if kind is None else kind.value,
        "since": since,
        "until": until,
    }
    return {name: value for name, value in said.items() if value is not None}


def _action(wanted: dict[str, str], *, dry_run: bool, expect: int | None) -> dict[str, Any]:
    return {"filter": wanted, "dry_run": dry_run, "expected_count": expect}


def _per_second(text: str) -> float:
    try:
        return float(text.removesuffix("/s"))
    except ValueError:
        raise InvalidRequest(f"{text!r} is no rate: write 5, or 5/s") from None
