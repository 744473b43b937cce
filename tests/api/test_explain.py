"""Why a task waits, as a caller is told."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest

from detectsched.api.explanation import Obstacle, as_lifo, estimated_start_seconds, reasons, why_not_serving
from detectsched.clock import utc_now
from detectsched.queueing.queue import Capacity, GivenBack, Standing, WorkerRecord
from detectsched.task import TaskError, TaskState
from tests.api.rig import MAC, Rig, problem
from tests.api.test_tasks import submit
from tests.support.actors import mac_number


async def explained(client: httpx.AsyncClient, task_id: str) -> dict[str, Any]:
    """Ask why a task waits."""
    answer = await client.get(f"/api/tasks/{task_id}/explain")
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


def obstacles(told: dict[str, Any]) -> list[str]:
    """Return the words."""
    return [reason["obstacle"] for reason in told["reasons"]]


async def test_a_waiting_task_is_told_its_place_and_its_scores(rig: Rig, client: httpx.AsyncClient) -> None:
    """Tasks before it, queues before it, the score under each policy, the runners, and when it should start."""
    await rig.report_runner(slots="text=1")
    first, _, third = [await submit(client) for _ in range(3)]
    [started] = await rig.begin()
    assert str(started.delivery.task_id) == first
    other = await submit(client, mac=mac_number(7))
    told = await explained(client, third)
    assert (told["task_id"], told["state"], told["lane"]) == (third, "queued", "text")
    assert obstacles(told) == ["runners_full", "behind_own", "behind_others"]
    assert told["summary"].startswith("It waits: all 1 slots of the lane text are taken")
    assert told["places"] == {
        "ahead": 1,
        "ahead_cost": 1.0,
        "queue_rank": 1,
        "queues": 2,
        "tenant_rank": 0,
        "tenants": 1,
    }
    rows = await rig.rows()
    assert told["scores"]["policy"] == "fair"
    assert told["scores"]["virtual_key"] == 1.0
    assert told["scores"]["fifo_sequence"] == rows[1]["sequence"], "of the head of its queue"
    assert 0 <= told["scores"]["aging_score"] < 60
    assert told["runners"] == [
        {"name": "host:1", "label": "gpu-1", "serving": True, "reason": "", "slots": 1, "active_tasks": 0}
    ]
    assert told["estimated_start_seconds"] is None, "no pace is measured"
    assert obstacles(await explained(client, other)) == ["runners_full"]


async def test_a_pace_makes_an_estimate(rig: Rig, client: httpx.AsyncClient) -> None:
    """What is before it, at the measured pace over the lane's slots."""
    await rig.report_runner(slots="text=2")
    waiting = [await submit(client) for _ in range(5)]
    await rig.clients.commands.hset(rig.queue.keys.named("lane:seconds"), "text", "3")
    told = await explained(client, waiting[-1])
    assert told["estimated_start_seconds"] == 4 * 3 / 2


async def test_what_is_paused_is_named_with_its_reason(rig: Rig, client: httpx.AsyncClient) -> None:
    """Lane, tenant and device; and that no runner is there."""
    task_id = await submit(client)
    async with rig.client("boss") as boss:
        await boss.post("/api/lanes/text/pause", json={"reason": "maintenance"})
        await boss.post("/api/tenant/pause")
        await boss.post(f"/api/devices/{MAC}/pause", json={"reason": "it floods"})
    told = await explained(client, task_id)
    assert obstacles(told) == ["lane_paused", "tenant_paused", "device_paused", "no_runner"]
    assert [reason["detail"] for reason in told["reasons"]] == [
        "the lane text is paused: maintenance",
        "the tenant is paused",
        "its device or object is paused: it floods",
        "no runner serves the lane text",
    ]
    assert told["summary"] == "It waits: the lane text is paused: maintenance (and 3 more)."


async def test_runners_that_do_not_serve_say_why(rig: Rig, client: httpx.AsyncClient) -> None:
    """Pressed, stopping; a runner of another lane is not among them."""
    task_id = await submit(client)
    await rig.report_runner(state="busy", reason="CPU load of others 91 %")
    await rig.report_runner(pid=2, consumer="host:2:b", state="stopping", reason="it is being drained")
    await rig.report_runner(pid=3, consumer="host:3:b", slots="ocr=1")
    told = await explained(client, task_id)
    assert obstacles(told) == ["runners_not_healthy"]
    assert told["reasons"][0]["detail"] == "host:1: CPU load of others 91 %; host:2: it is being drained"
    assert {runner["name"]: (runner["serving"], runner["reason"]) for runner in told["runners"]} == {
        "host:1": (False, "CPU load of others 91 %"),
        "host:2": (False, "it is being drained"),
    }


async def test_times_are_told(rig: Rig, client: httpx.AsyncClient) -> None:
    """A delayed task says until when, and so does a queue that backs off."""
    await rig.report_runner()
    due = utc_now() + timedelta(hours=1)
    delayed = await explained(client, await submit(client, not_before=due.isoformat()))
    assert obstacles(delayed) == ["delayed"]
    assert abs(_moment(delayed["reasons"][0]["until"]) - due.timestamp()) < 0.01
    assert delayed["places"] is None
    door = await submit(client, mac=None, object="door")
    [started] = await rig.begin()
    await rig.queue.scripts.release([GivenBack(started.delivery.task_id, started.delivery.number, 30.0, failed=True)])
    async with rig.ledger.connection() as connection:
        await connection.execute("UPDATE task SET state = 'queued' WHERE id = $1", started.delivery.task_id)
    backing_off = await explained(client, door)
    assert obstacles(backing_off) == ["back_off"]
    assert backing_off["reasons"][0]["detail"] == "its queue backs off: tries at its tasks failed, 1 in a row"


async def test_tasks_that_do_not_wait(rig: Rig, client: httpx.AsyncClient) -> None:
    """Next, running, being stopped, ended: said in a sentence, without reasons for waiting."""
    task_id = await submit(client)
    await rig.report_runner()
    free = await explained(client, task_id)
    assert (free["reasons"], free["summary"]) == ([], "It waits for nothing but its turn, which is next.")
    [started] = await rig.begin()
    running = await explained(client, task_id)
    assert (running["state"], running["reasons"], running["places"], running["scores"]) == ("running", [], None, None)
    assert running["summary"].startswith("It does not wait: it runs on host:1:boot since 20")
    await client.delete(f"/api/tasks/{task_id}")
    assert "being stopped" in (await explained(client, task_id))["summary"]
    await rig.finish(started, TaskState.FAILED, error=TaskError("undecodable_image", "it is cut short"))
    ended = await explained(client, task_id)
    assert ended["summary"] == "It does not wait: it has ended, failed: it is cut short."
    assert (ended["state"], ended["reasons"]) == ("failed", [])


async def test_a_task_that_redis_does_not_hold(rig: Rig, client: httpx.AsyncClient) -> None:
    """During a rebuild it is on its way; nothing else can be said."""
    task_id = await submit(client)
    await rig.clients.commands.flushall()
    told = await explained(client, task_id)
    assert obstacles(told) == ["not_queued_yet"]
    assert told["scores"] is None


async def test_a_strangers_task_is_not_explained(rig: Rig, client: httpx.AsyncClient) -> None:
    """As if it did not exist."""
    task_id = await submit(client)
    async with rig.client("other") as stranger:
        problem(await stranger.get(f"/api/tasks/{task_id}/explain"), 404, "not_found")
        problem(await stranger.get(f"/api/tasks/{uuid4()}/explain"), 404, "not_found")


def _moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


STANDING = Standing(
    now_ms=1_000_000,
    state="queued",
    queue="mac:acme:text:aa",
    lane="text",
    owner="",
    ready_ms=0,
    ahead=0,
    ahead_cost=0.0,
    scheduled_in="text",
    key=0.0,
    v=0.0,
    since_ms=0,
    until_ms=0,
    inflight=0,
    limit=0,
    probing=False,
    failures=0,
    defers=0,
    tokens=None,
    tenant_tokens=None,
    tenant_until_ms=0,
    queue_rank=0,
    queues=1,
    tenant_rank=0,
    tenants=1,
    head_created_ms=0,
    head_sequence=1,
    paused_lane_ms=0,
    paused_tenant_ms=0,
    paused_subject_ms=0,
    outstanding=0,
    lane_seconds=2.0,
    pending=1,
)
ROOM = Capacity(slots=4, consumers=("host:1:boot",), has_runner=True)


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, []),
        ({"state": "settling"}, [Obstacle.ENDING]),
        ({"state": "withdrawn"}, [Obstacle.ENDING]),
        ({"state": "held", "owner": "host:1"}, [Obstacle.HELD]),
        ({"state": "streamed", "outstanding": 4}, [Obstacle.HANDED_OUT]),
        ({"state": "streamed", "outstanding": 5}, [Obstacle.HANDED_OUT, Obstacle.RUNNERS_FULL]),
        ({"outstanding": 4}, [Obstacle.RUNNERS_FULL]),
        ({"until_ms": 2_000_000, "tokens": 0.5}, [Obstacle.RATE_LIMIT]),
        ({"until_ms": 2_000_000, "defers": 2}, [Obstacle.BACK_OFF]),
        ({"tenant_until_ms": 2_000_000}, [Obstacle.TENANT_RATE_LIMIT]),
        ({"limit": 2, "inflight": 2}, [Obstacle.IN_FLIGHT_LIMIT]),
        ({"probing": True, "inflight": 1}, [Obstacle.PROBING]),
        ({"queue": "object:acme:door", "inflight": 1}, [Obstacle.IN_FLIGHT_LIMIT]),
        ({"ahead": 3, "queue_rank": 2}, [Obstacle.BEHIND_OWN, Obstacle.BEHIND_OTHERS]),
    ],
)
def test_each_obstacle_has_its_word(changes: dict[str, Any], wanted: list[Obstacle]) -> None:
    """One change to a task that waits for nothing, one word."""
    found = reasons(replace(STANDING, **changes), ROOM, [])
    assert [reason.obstacle for reason in found] == wanted
    assert all(reason.detail for reason in found)


@pytest.mark.parametrize(
    ("changes", "seconds"),
    [
        ({}, 0.0),
        ({"lane_seconds": None}, None),
        ({"paused_lane_ms": 1}, None),
        ({"paused_subject_ms": 1}, None),
        ({"outstanding": 4}, 0.5),
        ({"state": "streamed", "outstanding": 4}, 0.0),
        ({"state": "streamed", "outstanding": 6}, 1.0),
        ({"ahead": 8, "ahead_cost": 8.0}, 4.0),
        ({"until_ms": 1_060_000}, 60.0),
        ({"queue": "object:acme:door", "ahead": 8, "ahead_cost": 8.0}, 16.0),
        ({"ahead": 8, "ahead_cost": 8.0, "limit": 2, "inflight": 2}, 10.0),
        ({"ahead": 8, "ahead_cost": 8.0, "tenants": 2}, 8.0 + 4.5),
    ],
)
def test_the_estimate(changes: dict[str, Any], seconds: float | None) -> None:
    """At two seconds a task over four slots."""
    found = estimated_start_seconds(replace(STANDING, **changes), ROOM, batch=10)
    assert found == (None if seconds is None else pytest.approx(seconds))


def test_no_estimate_without_a_slot() -> None:
    """Nobody works there."""
    assert estimated_start_seconds(STANDING, Capacity(), batch=10) is None


def test_where_the_newest_comes_first() -> None:
    """What was accepted later is before it; an object's order stays."""
    assert as_lifo(replace(STANDING, pending=10, ahead=2)).ahead == 7
    assert as_lifo(replace(STANDING, queue="object:acme:door", pending=10, ahead=2)).ahead == 2


def test_a_healthy_runner_that_may_not_read_the_lane() -> None:
    """A lane for GPUs, and a runner without one."""
    worker = WorkerRecord(
        "host", 9, 0, 0.0, 0.0, 1, 0.0, 1, 1, 0.0, 0, "now", consumer="host:9:boot", slots="text=1", label="cpu"
    )
    assert "no GPU" in why_not_serving(worker, ROOM)
    assert why_not_serving(replace(worker, consumer="host:1:boot"), ROOM) == ""
