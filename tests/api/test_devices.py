"""Devices, objects and the tenant: how they stand, what they may have, pausing them."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from detectsched.dispatcher.rebuilder import Rebuilder
from detectsched.task import QueueId
from tests.api.rig import MAC, Rig, bearer, problem
from tests.api.test_tasks import submit
from tests.support.actors import mac_number

KNOWN = "aa:bb:cc:dd:ee:01"


async def told(client: httpx.AsyncClient, path: str) -> dict[str, Any]:
    """Read something."""
    answer = await client.get(path)
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


async def test_a_device_shows_how_it_stands(rig: Rig, client: httpx.AsyncClient) -> None:
    """Backlog and work in hand, what it may have, and its place in every lane."""
    for _ in range(3):
        await submit(client)
    await submit(client, lane="ocr")
    await rig.begin()
    device = await told(client, f"/api/devices/{MAC}")
    queues = {queue["lane"]: queue for queue in device.pop("queues")}
    seen = device.pop("last_seen_at"), device.pop("first_seen_at")
    assert all(seen)
    assert device == {
        "mac": KNOWN,
        "name": "",
        "weight": None,
        "effective_weight": 1.0,
        "in_flight_limit": 0,
        "rate": 0.0,
        "burst": 0,
        "backlog": 3,
        "in_flight": 1,
        "pause": {"paused": False, "since": None, "reason": None, "by": None},
    }
    text = queues["text"]
    assert (text["waiting"], text["in_flight"], text["in_round"], text["virtual_key"]) == (2, 1, True, 1.0)
    assert (text["failures"], text["deferrals"], text["backed_off_until"]) == (0, 0, None)
    assert text["since"] is not None
    assert 0 <= text["aging_score"] < 60
    assert (queues["ocr"]["waiting"], queues["ocr"]["in_flight"]) == (1, 0)
    problem(await client.get(f"/api/devices/{mac_number(9)}"), 404, "not_found")
    problem(await client.get("/api/devices/nonsense"), 422, "invalid_request", field="mac")


async def test_devices_are_listed_page_by_page(rig: Rig, client: httpx.AsyncClient) -> None:
    """By address, without gap or repeat; only the caller's own."""
    for number in range(1, 6):
        await submit(client, mac=mac_number(number))
    async with rig.client("other") as stranger:
        await submit(stranger, mac=mac_number(99))
        assert [device["mac"] for device in (await told(stranger, "/api/devices"))["items"]] == [mac_number(99)]
    seen: list[str] = []
    cursor = ""
    while True:
        page = await told(client, f"/api/devices?limit=2{cursor}")
        seen += [device["mac"] for device in page["items"]]
        assert all(device["backlog"] == 1 for device in page["items"])
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert seen == [mac_number(number) for number in range(1, 6)]
    for query, field in {"limit=0": "limit", "limit=201": "limit", "cursor=abc": "cursor", "mac=x": "mac"}.items():
        problem(await client.get(f"/api/devices?{query}"), 422, "invalid_request", field=field)


async def test_a_change_holds_at_once_and_is_kept(rig: Rig, client: httpx.AsyncClient) -> None:
    """For what waits already, in the ledger, in the audit log; null goes back to the default."""
    for _ in range(3):
        await submit(client)
    changes = {"name": "front door", "weight": 4, "in_flight": 1, "rate": 0.5, "burst": 3}
    answer = await client.patch(f"/api/devices/{MAC}", json=changes)
    assert answer.status_code == 200, answer.text
    changed = answer.json()
    assert {name: changed[name] for name in ("name", "weight", "effective_weight", "rate", "burst")} == {
        "name": "front door",
        "weight": 4.0,
        "effective_weight": 4.0,
        "rate": 0.5,
        "burst": 3,
    }
    assert changed["in_flight_limit"] == 1
    assert len(await rig.begin(room=3)) == 1, "the limit holds for what waited before it was set"
    assert (await told(client, f"/api/devices/{MAC}"))["queues"][1]["virtual_key"] == 0.25, "and so does the weight"
    await client.patch(f"/api/devices/{MAC}", json={"weight": None, "in_flight": None, "rate": None})
    again = await told(client, f"/api/devices/{MAC}")
    assert (again["weight"], again["effective_weight"], again["in_flight_limit"], again["rate"]) == (None, 1.0, 0, 0.0)
    assert (again["name"], again["burst"]) == ("front door", 3)
    assert await rig.audited() == [
        ("change_device", KNOWN, changes),
        ("change_device", KNOWN, {"weight": None, "in_flight": 0, "rate": 0.0}),
    ]


async def test_a_device_can_be_prepared_before_it_is_seen(rig: Rig, client: httpx.AsyncClient) -> None:
    """Its first task finds what it may have; making it known twice at once is no trouble."""
    answers = await asyncio.gather(
        *(client.patch(f"/api/devices/{mac_number(5)}", json={"in_flight": 1}) for _ in range(4)),
        *(submit(client, mac=mac_number(5)) for _ in range(3)),
    )
    assert all(answer.status_code == 200 for answer in answers[:4] if isinstance(answer, httpx.Response))
    await submit(client, mac=mac_number(5))
    assert len(await rig.begin(room=9)) == 1


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({"weight": 0}, "weight"),
        ({"weight": -1}, "weight"),
        ({"weight": 1e9}, "weight"),
        ({"weight": "2"}, "weight"),
        ({"in_flight": -1}, "in_flight"),
        ({"in_flight": 1.5}, "in_flight"),
        ({"rate": -0.1}, "rate"),
        ({"rate": 1e-9}, "rate"),
        ({"burst": 10**9}, "burst"),
        ({"name": "x" * 201}, "name"),
        ({"name": "\x1b[2J"}, "name"),
        ({"wieght": 2}, "wieght"),
        ({}, None),
    ],
)
async def test_absurd_values_are_refused(
    rig: Rig, client: httpx.AsyncClient, document: dict[str, Any], field: str | None
) -> None:
    """With the field and what it should be; nothing is changed or audited, and no device is made."""
    problem(await client.patch(f"/api/devices/{MAC}", json=document), 422, "invalid_request", field=field)
    assert await rig.audited() == []
    problem(await client.get(f"/api/devices/{MAC}"), 404, "not_found")


@pytest.mark.parametrize("number", ["1e999", "NaN", "Infinity"])
async def test_numbers_that_are_none_are_refused(client: httpx.AsyncClient, number: str) -> None:
    """Infinity would be a weight that takes everything."""
    answer = await client.patch(
        f"/api/devices/{MAC}", content=f'{{"weight": {number}}}', headers={"Content-Type": "application/json"}
    )
    assert answer.status_code in {400, 422}, answer.text


async def test_a_paused_device_waits_and_goes_on(rig: Rig, client: httpx.AsyncClient) -> None:
    """In all lanes; its tasks are accepted meanwhile; pausing twice is the same, resuming twice a conflict."""
    await submit(client)
    await submit(client, lane="ocr")
    other = await submit(client, mac=mac_number(2))
    paused = await client.post(f"/api/devices/{MAC}/pause", json={"reason": "floods"})
    assert paused.status_code == 200, paused.text
    state = paused.json()
    assert (state["paused"], state["reason"]) == (True, "floods")
    assert state["by"].startswith("key ")
    again = (await client.post(f"/api/devices/{MAC}/pause")).json()
    assert (again["paused"], again["reason"], again["since"]) == (True, "", state["since"])
    await submit(client)
    assert [str(one.delivery.task_id) for one in await rig.begin(room=9)] == [other]
    assert await rig.begin("ocr", room=9) == []
    shown = await told(client, f"/api/devices/{MAC}")
    assert shown["pause"] == again
    assert (shown["backlog"], shown["queues"][0]["in_round"]) == (3, False)
    resumed = await client.post(f"/api/devices/{MAC}/resume")
    assert (resumed.status_code, resumed.json()["paused"]) == (200, False)
    assert len(await rig.begin(room=9)) == 2
    assert len(await rig.begin("ocr", room=9)) == 1
    assert "not paused" in problem(await client.post(f"/api/devices/{MAC}/resume"), 409, "conflict")["detail"]
    for action in ("pause", "resume"):
        problem(await client.post(f"/api/devices/{mac_number(9)}/{action}"), 404, "not_found")
    subject = f"subject:acme:{KNOWN}"
    assert await rig.audited() == [
        ("pause", subject, {"reason": "floods"}),
        ("pause", subject, {"reason": ""}),
        ("resume", subject, {}),
    ]


async def test_a_paused_object_waits_and_goes_on(rig: Rig, client: httpx.AsyncClient) -> None:
    """By any spelling of its name, also one with a slash."""
    task_id = await submit(client, mac=None, object="Case 17/b")
    for _ in range(2):
        assert (await client.post("/api/objects/CASE%20%2017%2Fb/pause")).json()["paused"] is True
    assert await rig.begin() == []
    assert (await client.post("/api/objects/case%2017%2Fb/resume")).json()["paused"] is False
    assert [str(one.delivery.task_id) for one in await rig.begin()] == [task_id]
    problem(await client.post("/api/objects/case%2017%2Fb/resume"), 409, "conflict")
    for action in ("pause", "resume"):
        problem(await client.post(f"/api/objects/nobody/{action}"), 404, "not_found")
        problem(await client.post(f"/api/objects/%00/{action}"), 422, "invalid_request", field="object")


async def test_a_resume_that_redis_missed_is_asked_for_again(rig: Rig, client: httpx.AsyncClient) -> None:
    """The ledger forgets the pause first; while Redis has it still, resuming is no conflict."""
    await submit(client)
    await client.post(f"/api/devices/{MAC}/pause")
    generation = await rig.clients.commands.get(rig.queue.keys.generation)
    assert generation is not None
    await rig.clients.commands.delete(rig.queue.keys.generation)
    problem(await client.post(f"/api/devices/{MAC}/resume"), 503, "rebuilding")
    await rig.clients.commands.set(rig.queue.keys.generation, generation)
    assert await rig.begin() == []
    assert (await client.post(f"/api/devices/{MAC}/resume")).status_code == 200
    assert len(await rig.begin()) == 1
    problem(await client.post(f"/api/devices/{MAC}/resume"), 409, "conflict")


async def test_pausing_twice_at_once(client: httpx.AsyncClient) -> None:
    """Both are answered."""
    await submit(client)
    answers = await asyncio.gather(*(client.post(f"/api/devices/{MAC}/pause") for _ in range(8)))
    assert {answer.status_code for answer in answers} == {200}


async def test_a_tenants_devices_share_its_default_weight(rig: Rig, client: httpx.AsyncClient) -> None:
    """Devices without a weight of their own get it at once; those that have one keep it."""
    await submit(client)
    await submit(client, mac=mac_number(2))
    await client.patch(f"/api/devices/{mac_number(2)}", json={"weight": 2})
    answer = await client.patch("/api/tenant", json={"device_weight": 5})
    assert answer.status_code == 200, answer.text
    assert (answer.json()["device_weight"], answer.json()["weight"], answer.json()["backlog"]) == (5.0, 1.0, 2)
    ids = [QueueId.of_device("acme", "text", mac) for mac in (KNOWN, mac_number(2))]
    _, queues = await rig.queue.views.queues(ids)
    assert [queue.weight for queue in queues] == [5.0, 2.0]
    shown = (await told(client, "/api/devices"))["items"]
    assert [device["effective_weight"] for device in shown] == [2.0, 5.0]
    assert await told(client, "/api/tenant") == answer.json()
    await client.patch("/api/tenant", json={"device_weight": None})
    assert (await told(client, "/api/tenant"))["device_weight"] == 1.0


async def test_a_tenants_own_share_is_the_operators_affair(rig: Rig, client: httpx.AsyncClient) -> None:
    """An admin may not change it, an operator with admin may; it holds at once."""
    for number in range(3):
        await submit(client, mac=mac_number(number + 1))
    for document in ({"weight": 3}, {"rate": 1}, {"burst": 2, "device_weight": 2}):
        assert "operate" in problem(await client.patch("/api/tenant", json=document), 403, "forbidden")["detail"]
    assert (await told(client, "/api/tenant"))["device_weight"] == 1.0
    async with rig.client("boss") as boss:
        answer = await boss.patch("/api/tenant", json={"weight": 3, "rate": 0.01, "burst": 2})
        assert (answer.status_code, answer.json()["weight"]) == (200, 3.0)
    assert len(await rig.begin(room=9)) == 2, "the rate holds for what waits already"
    async with rig.client("other") as stranger:
        assert (await told(stranger, "/api/tenant"))["weight"] == 1.0
    for document in ({"device_weight": 0}, {"device_weight": -2}, {"unknown": 1}, {}):
        problem(await client.patch("/api/tenant", json=document), 422, "invalid_request")


async def test_a_paused_tenant_waits_and_goes_on(rig: Rig, client: httpx.AsyncClient) -> None:
    """All of its devices; others are served."""
    await submit(client)
    async with rig.client("other") as stranger:
        theirs = await submit(stranger)
        assert (await client.post("/api/tenant/pause", json={"reason": "r"})).json()["paused"] is True
        assert (await told(client, "/api/tenant"))["pause"]["reason"] == "r"
        assert (await told(stranger, "/api/tenant"))["pause"]["paused"] is False
        assert [str(one.delivery.task_id) for one in await rig.begin(room=9)] == [theirs]
        problem(await stranger.post("/api/tenant/resume"), 409, "conflict")
    assert (await client.post("/api/tenant/resume")).json()["paused"] is False
    assert len(await rig.begin(room=9)) == 1
    problem(await client.post("/api/tenant/resume"), 409, "conflict")


async def test_a_strangers_devices_and_objects_do_not_exist(rig: Rig, client: httpx.AsyncClient) -> None:
    """The same address of another tenant is another device; what is paused for one goes on for the other."""
    await submit(client)
    await submit(client, mac=None, object="door")
    async with rig.client("other") as stranger:
        problem(await stranger.get(f"/api/devices/{MAC}"), 404, "not_found")
        for path in (f"/api/devices/{MAC}", "/api/objects/door"):
            problem(await stranger.post(f"{path}/pause"), 404, "not_found")
            assert (await client.post(f"{path}/pause")).status_code == 200
            problem(await stranger.post(f"{path}/resume"), 404, "not_found")
        assert (await stranger.patch(f"/api/devices/{MAC}", json={"weight": 9})).status_code == 200
        assert (await told(client, f"/api/devices/{MAC}"))["weight"] is None
        theirs = await submit(stranger)
        assert [str(one.delivery.task_id) for one in await rig.begin(room=9)] == [theirs]


async def test_a_pause_outlives_the_queues(rig: Rig, client: httpx.AsyncClient) -> None:
    """When Redis loses everything, what is paused is paused again before anything is queued."""
    await submit(client)
    await client.post(f"/api/devices/{MAC}/pause")
    async with rig.client("boss") as boss:
        await boss.post("/api/lanes/ocr/pause")
    await rig.clients.commands.flushall()
    assert await Rebuilder(rig.queue, rig.ledger, rig.settings).run_once() == 1
    assert set(await rig.queue.paused()) == {f"subject:acme:{KNOWN}", "lane:ocr"}
    assert await rig.begin(room=9) == []
    await client.post(f"/api/devices/{MAC}/resume")
    assert len(await rig.begin(room=9)) == 1


async def test_who_decided_is_remembered(rig: Rig, client: httpx.AsyncClient) -> None:
    """The key, and the id of the request."""
    await client.patch(f"/api/devices/{MAC}", json={"weight": 2}, headers={"X-Request-Id": "abc-1"})
    async with rig.ledger.connection() as connection:
        row = await connection.fetchrow("SELECT * FROM audit_log")
    assert (row["tenant"], row["request_id"]) == ("acme", "abc-1")
    assert row["actor"] == f"key {rig.keys['acme'].split('_')[1]}"
    assert bearer(rig.keys["acme"])["Authorization"] not in str(dict(row))
