"""``detectsched device`` and ``detectsched object``: what devices may have, how they stand, and pausing them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from detectsched.cli.output import Shown, cell, facts, table
from detectsched.cli.remote import Api, part, remote
from detectsched.errors import InvalidRequest

app = typer.Typer(no_args_is_help=True, help="Devices: list, show, change, pause.", rich_markup_mode=None)
objects = typer.Typer(no_args_is_help=True, help="Objects: show, change, pause.", rich_markup_mode=None)

Mac = Annotated[str, typer.Argument(help="A MAC address in any usual spelling.")]
Name = Annotated[str, typer.Argument(help="The object's name.")]
Reason = Annotated[str, typer.Option(help="Why, for people.")]
Weight = Annotated[
    str | None, typer.Option(help="Its share relative to its neighbours; 'default' for none of its own.")
]
InFlight = Annotated[int | None, typer.Option(help="Most of its tasks of a lane that run at once; 0: the default.")]
Rate = Annotated[float | None, typer.Option(help="Most tasks started per second; 0: no limit.")]
Burst = Annotated[int | None, typer.Option(help="Most tasks started at once after a pause, where there is a rate.")]


@app.command("list")
@remote
async def list_(api: Api, limit: Annotated[int, typer.Option(min=1, help="Most devices to show.")] = 200) -> Shown:
    """List devices by MAC address, with their backlog and limits."""
    items = await api.pages("/api/devices", limit=limit, most=200)
    header = ["MAC", "NAME", "BACKLOG", "IN FLIGHT", "WEIGHT", "LIMIT", "RATE", "AGING", "PAUSED", "LAST SEEN"]
    rows = [
        [
            device["mac"],
            device["name"],
            device["backlog"],
            device["in_flight"],
            device["effective_weight"],
            device["in_flight_limit"] or None,
            device["rate"] or None,
            max(queue["aging_score"] for queue in device["queues"]),
            device["pause"]["paused"],
            device["last_seen_at"],
        ]
        for device in items
    ]
    return Shown(items, table(header, rows))


@app.command()
@remote
async def show(api: Api, mac: Mac) -> Shown:
    """Show a device with its place in every lane."""
    return _shown(await api.get(f"/api/devices/{part(mac)}"))


@app.command("set")
@remote
async def set_(
    api: Api,
    mac: Mac,
    name: Annotated[str | None, typer.Option(help="What people call it.")] = None,
    weight: Weight = None,
    in_flight: InFlight = None,
    rate: Rate = None,
    burst: Burst = None,
) -> Shown:
    """Change what a device may have; what is not given stays as it is."""
    given = {"name": name, "in_flight": in_flight, "rate": rate, "burst": burst}
    changes: dict[str, Any] = {field: value for field, value in given.items() if value is not None}
    if weight is not None:
        changes["weight"] = weight_of(weight)
    return _shown(await api.patch(f"/api/devices/{part(mac)}", changes))


@app.command()
@remote
async def pause(api: Api, mac: Mac, reason: Reason = "") -> Shown:
    """Pause a device: nothing more of it is started, what runs goes on."""
    return paused(f"device {mac}", await api.post(f"/api/devices/{part(mac)}/pause", {"reason": reason}))


@app.command()
@remote
async def resume(api: Api, mac: Mac) -> Shown:
    """Let a paused device go on."""
    return paused(f"device {mac}", await api.post(f"/api/devices/{part(mac)}/resume"))


@objects.command("show")
@remote
async def show_object(api: Api, name: Name) -> Shown:
    """Show an object with its backlog and the word lists that judge its tasks."""
    return _shown_object(await api.get(f"/api/objects/{part(name)}"))


@objects.command("set")
@remote
async def set_object(
    api: Api,
    name: Name,
    word_list: Annotated[
        list[str], typer.Option(help="A word list that judges its tasks; 'default' for the tenant's. Repeat it.")
    ],
) -> Shown:
    """Choose the word lists that judge what is accepted of an object from now on."""
    chosen = None if word_list == ["default"] else word_list
    return _shown_object(await api.patch(f"/api/objects/{part(name)}", {"word_lists": chosen}))


def _shown_object(item: Any) -> Shown:
    lists = item["word_lists"]
    return Shown(
        item,
        facts(
            [
                ("object", item["object"]),
                ("word lists", "the tenant's defaults" if lists is None else ", ".join(lists) or "none"),
                ("backlog", item["backlog"]),
                ("in flight", item["in_flight"]),
                ("waits in", item["lane"]),
                ("paused", item["pause"]["paused"]),
            ]
        ),
    )


@objects.command("pause")
@remote
async def pause_object(api: Api, name: Name, reason: Reason = "") -> Shown:
    """Pause an object: nothing more of it is started, what runs goes on."""
    return paused(f"object {name}", await api.post(f"/api/objects/{part(name)}/pause", {"reason": reason}))


@objects.command("resume")
@remote
async def resume_object(api: Api, name: Name) -> Shown:
    """Let a paused object go on."""
    return paused(f"object {name}", await api.post(f"/api/objects/{part(name)}/resume"))


def paused(what: str, state: dict[str, Any], *, word: str = "paused") -> Shown:
    """Show what became of a pause."""
    if not state["paused"]:
        return Shown(state, [f"{what} goes on"])
    why = f" ({cell(state['reason'])})" if state["reason"] else ""
    return Shown(state, [f"{what} is {word} since {cell(state['since'])}{why}"])


def weight_of(text: str) -> float | None:
    """Return a weight as the API takes it; None for 'default'.

    Raises:
        InvalidRequest: it is neither a number nor 'default'.
    """
    if text == "default":
        return None
    try:
        return float(text)
    except ValueError:
        raise InvalidRequest(f"{text!r} is no weight: give a number, or 'default'") from None


def _shown(device: dict[str, Any]) -> Shown:
    pause_ = device["pause"]
    names = ("mac", "name", "backlog", "in_flight", "in_flight_limit", "rate", "burst", "first_seen_at", "last_seen_at")
    own = "" if device["weight"] is not None else " (the tenant's default)"
    lines = facts(
        [
            *((name, device[name]) for name in names),
            ("weight", f"{device['effective_weight']:.6g}{own}"),
            ("paused", f"since {cell(pause_['since'])}: {cell(pause_['reason'])}" if pause_["paused"] else False),
        ]
    )
    header = ["LANE", "WAITING", "IN FLIGHT", "IN ROUND", "KEY", "AGING", "SINCE", "BACK-OFF UNTIL", "FAILURES"]
    rows = [
        [
            queue["lane"],
            queue["waiting"],
            queue["in_flight"],
            queue["in_round"],
            queue["virtual_key"],
            queue["aging_score"],
            queue["since"],
            queue["backed_off_until"],
            queue["failures"],
        ]
        for queue in device["queues"]
    ]
    return Shown(device, [*lines, "", *table(header, rows)])
