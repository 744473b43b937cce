"""Lanes and runners, which all tenants share: how they stand, pausing, draining, scaling."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from detectsched.dispatcher.watermark import Watermark
from tests.api.rig import Rig, problem
from tests.api.test_devices import told
from tests.api.test_tasks import submit
from tests.support.actors import mac_number


@pytest.fixture
async def boss(rig: Rig) -> AsyncIterator[httpx.AsyncClient]:
    """Give a client with every scope."""
    async with rig.client("boss") as client:
        yield client


async def lane(client: httpx.AsyncClient, name: str = "text") -> dict[str, Any]:
    """Return one lane as it is listed."""
    [found] = [item for item in (await told(client, "/api/lanes"))["items"] if item["lane"] == name]
    assert isinstance(found, dict)
    return found


async def pace(rig: Rig, seconds: float) -> None:
    """Have the text lane take so long for a standard task."""
    await rig.clients.commands.hset(rig.queue.keys.named("lane:seconds"), "text", str(seconds))


async def test_a_lane_shows_how_it_stands(rig: Rig, client: httpx.AsyncClient) -> None:
    """What waits, runs, is handed out and done, of all tenants; who serves it, and how fast."""
    empty = await lane(client)
    assert (empty["depth"], empty["capacity"], empty["runners"], empty["backlog_seconds"]) == (0, 0, 0, None)
    for number in range(4):
        await submit(client, mac=mac_number(number % 2 + 1))
    await submit(client, mac=mac_number(1), not_before="2026-12-29T00:00:00Z")
    async with rig.client("other") as stranger:
        await submit(stranger)
    await rig.report_runner(slots="text=3")
    await rig.report_runner(pid=2, consumer="host:2:b", state="busy", reason="pressed", slots="text=3,ocr=1")
    [first, _] = await rig.begin(room=2)
    await rig.finish(first)
    await pace(rig, 2.5)
    found = await lane(client)
    assert found.pop("oldest_wait_seconds") >= 0
    assert found == {
        "lane": "text",
        "depth": 3,
        "running": 1,
        "tenants": 2,
        "queues": found["queues"],
        "outstanding": 1,
        "capacity": 3,
        "runners": 2,
        "healthy_runners": 1,
        "completed": 1,
        "seconds_per_cost": 2.5,
        "backlog_seconds": 7.5,
        "admission": "any",
        "pause": {"paused": False, "since": None, "reason": None, "by": None},
    }
    assert found["queues"] in {2, 3}
    assert [item["lane"] for item in (await told(client, "/api/lanes"))["items"]] == ["ocr", "text"]


async def test_a_paused_lane_hands_nothing_out(rig: Rig, client: httpx.AsyncClient, boss: httpx.AsyncClient) -> None:
    """For nobody; an admin of a tenant may not pause it; twice is the same; resuming twice is a conflict."""
    await submit(client)
    for action in ("pause", "resume"):
        problem(await client.post(f"/api/lanes/text/{action}"), 403, "forbidden")
        assert "ocr, text" in problem(await boss.post(f"/api/lanes/gpu/{action}"), 404, "not_found")["detail"]
        problem(await boss.post(f"/api/lanes/No!/{action}"), 422, "invalid_request", field="lane")
    problem(await boss.post("/api/lanes/text/resume"), 409, "conflict")
    for _ in range(2):
        answer = await boss.post("/api/lanes/text/pause", json={"reason": "maintenance"})
        assert (answer.status_code, answer.json()["reason"]) == (200, "maintenance")
    assert await rig.begin(room=9) == []
    assert (await lane(client))["pause"]["reason"] == "maintenance"
    assert (await boss.post("/api/lanes/text/resume")).json()["paused"] is False
    assert len(await rig.begin(room=9)) == 1
    assert [(action, what) for action, what, _ in await rig.audited()] == [
        ("pause", "lane:text"),
        ("pause", "lane:text"),
        ("resume", "lane:text"),
    ]


@pytest.mark.parametrize("body", [b"{", b'{"reason": 1}', b'{"reason": "\\u001b"}', b'{"why": "x"}', b"[]"])
async def test_a_wrong_body_pauses_nothing(rig: Rig, boss: httpx.AsyncClient, body: bytes) -> None:
    """Refused, with what is wrong."""
    answer = await boss.post("/api/lanes/text/pause", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in {400, 422}, answer.text
    problem(await boss.post("/api/lanes/text/pause", content=b"reason=x"), 415, "unsupported_media")
    assert await rig.queue.paused() == {}


async def test_runners_show_how_they_stand(rig: Rig, client: httpx.AsyncClient) -> None:
    """Each with its state; a malformed record hides itself alone, and nobody sees the lists of others."""
    assert await told(client, "/api/runners") == {"items": [], "drained": []}
    await rig.report_runner(
        "left",
        gpu_available=1,
        gpu_util=None,
        slots="ocr=1,text=32",
        engine="rapidocr 3",
        word_lists="acme/a@3 other/b@1 acme-2/c@1 acme/b@x",
    )
    await rig.report_runner("right", pid=2, consumer="host:2:b", state="unhealthy", reason="its GPU is lost")
    await rig.clients.commands.hset(rig.queue.keys.named("worker:bad:3"), "slots", "text=-7")
    await rig.clients.commands.expire(rig.queue.keys.named("worker:bad:3"), 60)
    await rig.clients.commands.zadd(rig.queue.keys.named("workers"), {"bad:3": 9e12})
    left, right = (await told(client, "/api/runners"))["items"]
    assert left == {
        "name": "host:1",
        "label": "left",
        "state": "healthy",
        "reason": "",
        "drained": False,
        "lanes": [{"lane": "ocr", "slots": 1}, {"lane": "text", "slots": 32}],
        "active_tasks": 0,
        "cpu_percent": 10.0,
        "memory_percent": 10.0,
        "gpu_available": True,
        "gpu_util": None,
        "gpu_memory_util": 0.0,
        "engine": "rapidocr 3",
        "version": "",
        "last_heartbeat": "2026-11-30T00:00:00+00:00",
        "word_lists": [{"id": "a", "version": 3}],
    }
    assert (right["state"], right["reason"]) == ("unhealthy", "its GPU is lost")


async def test_a_drain_is_kept_by_label(rig: Rig, client: httpx.AsyncClient, boss: httpx.AsyncClient) -> None:
    """Also while no runner of it is there, and over a loss of Redis; it ends when it is resumed."""
    await rig.report_runner("left")
    for action in ("drain", "resume"):
        problem(await client.post(f"/api/runners/left/{action}"), 403, "forbidden")
        assert "left" in problem(await boss.post(f"/api/runners/right/{action}"), 404, "not_found")["detail"]
    problem(await boss.post("/api/runners/host:1/drain"), 422, "invalid_request", field="label")
    problem(await boss.post("/api/runners/left/resume"), 409, "conflict")
    for _ in range(2):
        assert (await boss.post("/api/runners/left/drain", json={"reason": "new card"})).json()["paused"] is True
    assert list(await rig.queue.paused()) == ["runner:left"], "what its drain loop looks at"
    shown = await told(client, "/api/runners")
    assert shown["items"][0]["drained"] is True
    assert [(one["label"], one["reason"]) for one in shown["drained"]] == [("left", "new card")]
    await rig.queue.registry.remove("host:1", rig.settings.lanes)
    assert [one["label"] for one in (await told(client, "/api/runners"))["drained"]] == ["left"]
    assert (await boss.post("/api/runners/left/resume")).json()["paused"] is False
    assert await rig.queue.paused() == {}
    problem(await boss.post("/api/runners/left/resume"), 404, "not_found")


async def test_an_autoscaler_is_told_how_many_and_why(
    rig: Rig, client: httpx.AsyncClient, boss: httpx.AsyncClient
) -> None:
    """From seconds of work at the measured pace; without a pace one runner, if anything waits."""

    async def scaling() -> dict[str, Any]:
        return await told(client, "/api/scaling/text")

    nothing = await scaling()
    assert (nothing["desired"], nothing["backlog"], nothing["reason"]) == (0, 0, "nothing waits and nothing runs")
    for number in range(10):
        await submit(client, mac=mac_number(number + 1))
    unknown = await scaling()
    assert (unknown["desired"], unknown["backlog"], unknown["backlog_seconds"]) == (1, 10, None)
    assert "no pace is measured" in unknown["reason"]
    await pace(rig, 60.0)
    assert (await scaling())["desired"] == 1, "32 slots of a text runner work off 600 s within a minute"
    await rig.report_runner(slots="text=2")
    known = await scaling()
    assert (known["desired"], known["backlog_seconds"]) == (5, 600.0)
    assert known["oldest_wait_seconds"] >= 0
    assert "10 wait, 0 run" in known["reason"]
    await rig.begin(room=4)
    running = await scaling()
    assert (running["desired"], running["backlog"], running["backlog_seconds"]) == (5, 6, 360.0)
    await boss.post("/api/lanes/text/pause")
    paused = await scaling()
    assert (paused["desired"], paused["reason"]) == (2, "the lane text is paused: nothing is handed out")
    problem(await client.get("/api/scaling/gpu"), 404, "not_found")


async def test_the_published_level_has_the_lanes(rig: Rig, client: httpx.AsyncClient) -> None:
    """The same figures, for whoever reads the level."""
    await submit(client)
    await pace(rig, 2.0)
    await Watermark(rig.queue, rig.ledger, rig.settings).run_once()
    level = await told(client, "/api/watermark")
    assert set(level["lanes"]) == {"ocr", "text"}
    text = level["lanes"]["text"]
    assert (text["desired"], text["backlog"], text["backlog_seconds"]) == (1, 1, 2.0)
    assert text["reason"] == (await told(client, "/api/scaling/text"))["reason"]
