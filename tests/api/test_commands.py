"""Commands: devices take theirs, tenants look at them."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from detectsched.api.waiters import CommandLook
from detectsched.command import CommandKind, command_id
from detectsched.db.notifications import Notifications
from detectsched.lifecycle import stop_in_reverse
from tests.api.rig import MAC, Rig, problem, rigged
from tests.api.test_command_policies import put
from tests.api.test_devices import told
from tests.api.test_tasks import submit
from tests.support.actors import mac_number
from tests.support.outbox import found
from tests.support.waiting import wait_until

THEIRS = f"/api/devices/{MAC}/commands"


async def hit(rig: Rig, client: httpx.AsyncClient, *levels: int, **fields: Any) -> str:
    """Submit a text in which words are found; return the task's id."""
    task_id = await submit(client, **fields)
    [started] = await rig.begin()
    await rig.finish(started, detection=found(*(levels or (1,))))
    return task_id


async def is_listening(rig: Rig) -> bool:
    """Whether somebody listens in this test's database."""
    async with rig.ledger.connection() as connection:
        return bool(
            await connection.fetchval(
                "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()"
            )
        )


async def test_a_device_takes_its_commands(rig: Rig, client: httpx.AsyncClient) -> None:
    """The oldest first, again and again under the same id, until it acknowledges them."""
    await put(client, "tell", message="level ${level}")
    first = await hit(rig, client, 2)
    second = await hit(rig, client, 4)
    await hit(rig, client, mac=mac_number(9))
    async with rig.client("submit") as device:
        taken = await told(device, THEIRS)
        assert taken["more"] is False
        assert [item["task_id"] for item in taken["items"]] == [first, second]
        one = taken["items"][0]
        assert one["id"] == str(command_id(UUID(first), CommandKind.NOTIFY, "tell"))
        assert {name: one[name] for name in ("kind", "state", "policy", "level", "message", "payload")} == {
            "kind": "notify",
            "state": "pending",
            "policy": "tell",
            "level": 2,
            "message": "level 2",
            "payload": {},
        }
        assert await told(device, THEIRS) == taken, "nothing is lost with an answer"
        limited = await told(device, f"{THEIRS}?limit=1")
        assert ([item["id"] for item in limited["items"]], limited["more"]) == ([one["id"]], True)
        answer = await device.post(f"{THEIRS}/{one['id']}/ack")
        assert (answer.status_code, answer.json()["state"]) == (200, "acknowledged")
        again = await device.post(f"{THEIRS}/{one['id']}/ack")
        assert again.json() == answer.json(), "saying it again changes nothing"
        assert [item["task_id"] for item in (await told(device, THEIRS))["items"]] == [second]


async def test_commands_about_an_object(rig: Rig, client: httpx.AsyncClient) -> None:
    """Whatever its name is spelt like; a device has none of them."""
    await put(client, "tell")
    await hit(rig, client, mac=None, object="Front  Door/1")
    [command] = (await told(client, "/api/objects/FRONT%20door%2F1/commands"))["items"]
    assert (command["object"], command["mac"]) == ("front door/1", None)
    problem(await client.post(f"{THEIRS}/{command['id']}/ack"), 404, "not_found")
    answer = await client.post(f"/api/objects/front%20door%2F1/commands/{command['id']}/ack")
    assert answer.json()["state"] == "acknowledged"
    assert (await told(client, "/api/objects/front%20door%2F1/commands"))["items"] == []


async def test_a_device_waits_for_its_command(rig: Rig, client: httpx.AsyncClient) -> None:
    """And has it as soon as it is written; without one the answer comes after the time."""
    # Without the look, which would find it in any case.
    services = [service for service in rig.context.services() if isinstance(service, Notifications)]
    assert (await told(client, f"{THEIRS}?wait=0.01"))["items"] == []
    await put(client, "tell")
    for service in services:
        await service.start()
    try:
        await wait_until(lambda: is_listening(rig), "the API listening")
        waiting = asyncio.create_task(client.get(f"{THEIRS}?wait=30"))
        await wait_until(lambda: len(rig.context.command_waiters) == 1, "the device waiting")
        await hit(rig, client)
        answer = await asyncio.wait_for(waiting, 10)
        assert len(answer.json()["items"]) == 1
    finally:
        await stop_in_reverse(services)
    assert len(rig.context.command_waiters) == 0


async def test_a_lost_hint_is_made_up_for(rig: Rig, client: httpx.AsyncClient) -> None:
    """By a look, for devices and objects alike, and not for those that have nothing to do."""
    await put(client, "tell")
    waiting = [
        asyncio.create_task(client.get(f"{path}?wait=30"))
        for path in (THEIRS, "/api/objects/door/commands", f"/api/devices/{mac_number(7)}/commands")
    ]
    await wait_until(lambda: len(rig.context.command_waiters) == 3, "all three waiting")
    await hit(rig, client)
    await hit(rig, client, mac=None, object="door")
    look = CommandLook(rig.ledger, rig.context.command_waiters)
    assert await look.run_once() == 2
    for answered in waiting[:2]:
        assert len((await asyncio.wait_for(answered, 10)).json()["items"]) == 1
    rig.context.begin_stop()
    assert (await asyncio.wait_for(waiting[2], 10)).json() == {"items": [], "more": False}
    assert await look.run_once() == 0


async def test_so_many_may_wait(rig: Rig) -> None:
    """The next one is told to come back; without `wait` it is answered."""
    api = rig.settings.api.model_copy(update={"max_command_waiters": 1})
    async with rigged(rig.settings.model_copy(update={"api": api})) as small, small.client() as client:
        waiting = asyncio.create_task(client.get(f"{THEIRS}?wait=30"))
        await wait_until(lambda: len(small.context.command_waiters) == 1, "the first waiting")
        problem(await client.get(f"{THEIRS}?wait=30"), 503, "system_overloaded")
        assert (await told(client, THEIRS))["items"] == []
        small.context.begin_stop()
        assert (await waiting).status_code == 200


async def test_commands_are_listed(rig: Rig, client: httpx.AsyncClient) -> None:
    """The newest first, by every filter, page after page."""
    await put(client, "tell")
    await put(client, "lock", kind="lock_screen", min_level=5)
    light = await hit(rig, client, 1)
    grave = await hit(rig, client, 5, mac=mac_number(2))
    door = await hit(rig, client, 1, mac=None, object="door")

    async def listed(query: str = "") -> list[tuple[str, str]]:
        return [(item["task_id"], item["policy"]) for item in (await told(client, f"/api/commands{query}"))["items"]]

    everything = await listed()
    assert everything[0] == (door, "tell")
    assert everything[3] == (light, "tell")
    assert set(everything[1:3]) == {(grave, "tell"), (grave, "lock")}
    assert await listed("?kind=lock_screen") == [(grave, "lock")]
    assert set(await listed(f"?mac={mac_number(2).upper()}")) == set(everything[1:3])
    assert await listed("?object=DOOR") == [(door, "tell")]
    assert await listed(f"?task_id={light}") == [(light, "tell")]
    [command] = (await told(client, "/api/commands?object=door"))["items"]
    await client.post(f"/api/objects/door/commands/{command['id']}/ack")
    assert await listed("?state=acknowledged") == [(door, "tell")]
    assert await listed("?state=pending") == everything[1:]
    seen: list[tuple[str, str]] = []
    cursor = ""
    while True:
        page = await told(client, f"/api/commands?limit=1{cursor}")
        seen += [(item["task_id"], item["policy"]) for item in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert seen == everything
    detail = await told(client, f"/api/commands/{command['id']}")
    assert (detail["state"], detail["deliveries"]) == ("acknowledged", [])
    assert detail["acknowledged_at"] is not None
    problem(await client.get(f"/api/commands/{uuid4()}"), 404, "not_found")


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/api/commands?state=lost", "state"),
        ("/api/commands?mac=x", "mac"),
        ("/api/commands?cursor=abc", "cursor"),
        ("/api/commands?kinds=notify", "kinds"),
        ("/api/commands?limit=0", "limit"),
        (f"{THEIRS}?wait=-1", "wait"),
        (f"{THEIRS}?wait=nan", "wait"),
        (f"{THEIRS}?limit=101", "limit"),
        ("/api/devices/x/commands", "mac"),
        ("/api/objects/%20/commands", "object"),
    ],
)
async def test_wrong_questions(client: httpx.AsyncClient, path: str, field: str) -> None:
    """Are refused, naming the field."""
    problem(await client.get(path), 422, "invalid_request", field=field)


async def test_commands_of_a_stranger(rig: Rig, client: httpx.AsyncClient) -> None:
    """Are not seen, taken or acknowledged, though the device has the same address."""
    await put(client, "tell")
    await hit(rig, client)
    [command] = (await told(client, THEIRS))["items"]
    async with rig.client("other") as stranger:
        assert (await told(stranger, THEIRS))["items"] == []
        assert (await told(stranger, "/api/commands"))["items"] == []
        problem(await stranger.get(f"/api/commands/{command['id']}"), 404, "not_found")
        problem(await stranger.post(f"{THEIRS}/{command['id']}/ack"), 404, "not_found")
    async with rig.client("read") as reader:
        problem(await reader.get(THEIRS), 403, "forbidden")
        assert len((await told(reader, "/api/commands"))["items"]) == 1
