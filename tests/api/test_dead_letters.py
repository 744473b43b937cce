"""Dead letters: looking at them, driving them again, purging them."""

from __future__ import annotations

import asyncio
import base64
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID

import httpx
import pytest

from detectsched.clock import utc_now
from detectsched.dispatcher.reconciler import Reconciler
from detectsched.errors import BlobMissing
from detectsched.task import TaskError, TaskState
from tests.api.rig import MAC, Rig, png, problem, rigged
from tests.api.test_devices import told
from tests.api.test_tasks import submit
from tests.support.actors import mac_number


async def die(rig: Rig, client: httpx.AsyncClient, reason: str = "engine_crashed", **fields: Any) -> str:
    """Submit a text and have it given up on."""
    task_id = await submit(client, **fields)
    [started] = await rig.begin(fields.get("lane", "text"))
    assert str(started.delivery.task_id) == task_id
    await rig.finish(started, TaskState.DEAD, error=TaskError(reason, f"it was {reason}"))
    return task_id


async def letters(client: httpx.AsyncClient, query: str = "") -> list[str]:
    """Return the ids of the dead letters that a query finds."""
    return [item["id"] for item in (await told(client, f"/api/dead-letters{query}"))["items"]]


async def act(client: httpx.AsyncClient, action: str = "redrive", **body: Any) -> httpx.Response:
    """Re-drive or purge."""
    return await client.post(f"/api/dead-letters/{action}", json={"filter": {}, **body})


async def test_letters_are_listed_and_counted_by_reason(rig: Rig, client: httpx.AsyncClient) -> None:
    """The latest first, by every filter, alone and together."""
    crashed = await die(rig, client, mac=mac_number(1))
    lost = await die(rig, client, "runner_lost", mac=mac_number(2))
    between = utc_now()
    in_ocr = await die(rig, client, "runner_lost", mac=mac_number(1), lane="ocr")
    door = await die(rig, client, mac=None, object="Front  Door")
    await submit(client)
    assert await letters(client) == [door, in_ocr, lost, crashed]
    for query, wanted in {
        "reason=runner_lost": [in_ocr, lost],
        "lane=ocr": [in_ocr],
        f"mac={mac_number(1).upper()}": [in_ocr, crashed],
        "object=FRONT%20DOOR": [door],
        "kind=image": [],
        "kind=text": [door, in_ocr, lost, crashed],
        f"since={between:%Y-%m-%dT%H:%M:%S.%fZ}": [door, in_ocr],
        f"until={between:%Y-%m-%dT%H:%M:%S.%fZ}": [lost, crashed],
        f"reason=runner_lost&mac={mac_number(2)}": [lost],
    }.items():
        assert await letters(client, f"?{query}") == wanted, query
    [item] = (await told(client, f"/api/dead-letters?mac={mac_number(2)}"))["items"]
    assert (item["reason"], item["detail"], item["lane"], item["kind"]) == (
        "runner_lost",
        "it was runner_lost",
        "text",
        "text",
    )
    groups = await told(client, "/api/dead-letters/groups?lane=text")
    assert groups["count"] == 3
    assert [(group["reason"], group["count"]) for group in groups["items"]] == [
        ("engine_crashed", 2),
        ("runner_lost", 1),
    ]
    assert groups["items"][0]["first_at"] < groups["items"][0]["last_at"]
    assert await rig.audited() == [], "looking is not audited"


async def test_pages_of_letters(rig: Rig, client: httpx.AsyncClient) -> None:
    """Without gap or repeat, also among letters that died at one moment."""
    wanted = [await die(rig, client) for _ in range(5)]
    async with rig.ledger.connection() as connection:
        await connection.execute("UPDATE task SET finished_at = now()")
    seen: list[str] = []
    cursor = ""
    while True:
        page = await told(client, f"/api/dead-letters?limit=2{cursor}")
        seen += [item["id"] for item in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert seen == sorted(wanted, reverse=True)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("reason=No!", "reason"),
        ("lane=!", "lane"),
        ("mac=x", "mac"),
        ("kind=video", "kind"),
        ("since=2026", "since"),
        ("since=2026-01-01", "since"),
        ("until=2026-01-01T00:00:00", "until"),
        ("since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z", "since"),
        ("reasons=x", "reasons"),
        ("cursor=abc", "cursor"),
        ("limit=0", "limit"),
    ],
)
async def test_a_wrong_filter_is_refused(client: httpx.AsyncClient, query: str, field: str) -> None:
    """Rather than meaning all letters."""
    problem(await client.get(f"/api/dead-letters?{query}"), 422, "invalid_request", field=field)


async def test_a_letter_is_driven_again_as_a_new_task(rig: Rig, client: httpx.AsyncClient) -> None:
    """The letter stays as it ended; the new task names it, waits in the same queue, lives as long, and can succeed."""
    old = await die(rig, client, ttl_seconds=500)
    before = (await rig.rows())[0]
    dry = await act(client, dry_run=True)
    assert (dry.status_code, dry.json()) == (200, {"matched": 1, "redriven": 0, "left": 1})
    assert await rig.pending() == 0
    answer = await act(client, expected_count=1)
    assert (answer.status_code, answer.json()) == (200, {"matched": 1, "redriven": 1, "left": 0})
    letter, fresh = await rig.rows()
    assert letter == before, "a terminal state never changes"
    assert str(fresh["redrive_of"]) == old
    assert (fresh["state"], fresh["attempts"], fresh["fence"], fresh["queue"]) == ("queued", 0, 0, letter["queue"])
    assert fresh["sequence"] > letter["sequence"]
    assert fresh["expires_at"] - fresh["created_at"] == timedelta(seconds=500)
    assert fresh["idempotency_key"] is None
    shown = await told(client, f"/api/tasks/{fresh['id']}")
    assert (shown["redrive_of"], shown["redriven_as"], shown["attempts"]) == (old, None, 0)
    assert (await told(client, f"/api/tasks/{old}"))["redriven_as"] == str(fresh["id"])
    assert await letters(client) == [], "it is history now"
    problem(await act(client, expected_count=1), 404, "not_found")
    [started] = await rig.begin()
    assert started.delivery.task_id == fresh["id"]
    assert started.text == letter["text"]
    await rig.finish(started)
    assert await rig.state_of(str(fresh["id"])) == "succeeded"
    assert await rig.audited() == [("redrive_dead_letters", "dead_letters", {"filter": {}, "matched": 1, "count": 1})]


async def test_the_count_must_be_the_expected_one(rig: Rig, client: httpx.AsyncClient) -> None:
    """Else nothing is done; nothing matching is said as such."""
    await die(rig, client)
    await die(rig, client, "runner_lost")
    for action in ("redrive", "purge"):
        detail = problem(await act(client, action, expected_count=1), 409, "conflict")["detail"]
        assert detail.startswith("2 dead letters match the filter, not 1")
        answer = await act(client, action, filter={"reason": "no_runner"}, expected_count=1)
        problem(answer, 404, "not_found")
        problem(await act(client, action), 422, "invalid_request", field="expected_count")
        dry = await act(client, action, filter={"reason": "no_runner"}, dry_run=True)
        assert dry.json()["matched"] == 0
    assert await rig.audited() == []
    assert await rig.pending() == 0
    answer = await act(client, filter={"reason": "runner_lost"}, expected_count=1)
    assert answer.json() == {"matched": 1, "redriven": 1, "left": 0}
    assert (await rig.audited())[0][2] == {"filter": {"reason": "runner_lost"}, "matched": 1, "count": 1}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"filter": {"reasn": "x"}}, "filter.reasn"),
        ({"filter": None}, "filter"),
        ({"filter": {"since": 5}}, "filter.since"),
        ({"filter": {"mac": "x"}}, "mac"),
        ({"expected_count": -1}, "expected_count"),
        ({"rate_per_second": 0}, "rate_per_second"),
        ({"rate_per_second": -5}, "rate_per_second"),
        ({"rate_per_second": 1e9}, "rate_per_second"),
        ({"dry_run": "yes"}, "dry_run"),
        ({"rate": 5}, "rate"),
    ],
)
async def test_a_wrong_re_drive_is_refused(client: httpx.AsyncClient, body: dict[str, Any], field: str) -> None:
    """With the field."""
    problem(await act(client, **{"expected_count": 1, **body}), 422, "invalid_request", field=field)


async def test_a_rate_spaces_the_starts(rig: Rig, client: httpx.AsyncClient) -> None:
    """Each waits for its place, and its time to live begins there: nothing has to run meanwhile."""
    for number in range(4):
        await die(rig, client, mac=mac_number(number + 1))
    answer = await act(client, expected_count=4, rate_per_second=0.5)
    assert answer.json()["redriven"] == 4
    fresh = (await rig.rows())[4:]
    starts = [row["not_before"] for row in fresh]
    assert starts[0] is None
    assert [later - earlier for earlier, later in pairwise(starts[1:])] == [timedelta(seconds=2)] * 2
    assert fresh[3]["expires_at"] - fresh[3]["not_before"] == timedelta(hours=1)
    assert len(await rig.begin(room=9)) == 1, "the others may not start yet"
    assert (await rig.audited())[0][2]["rate_per_second"] == 0.5


async def test_a_re_drive_leaves_room_for_new_work(rig: Rig) -> None:
    """It takes what fits; the rest is come back for; without room it is told when."""
    api = rig.settings.api.model_copy(update={"max_total_pending": 5})
    async with rigged(rig.settings.model_copy(update={"api": api})) as small, small.client() as client:
        for _ in range(6):
            await die(small, client)
        answer = await act(client, expected_count=6)
        assert answer.json() == {"matched": 6, "redriven": 4, "left": 2}
        assert (await small.audited())[-1][2] == {"filter": {}, "matched": 6, "count": 4}
        problem(await act(client, expected_count=2), 503, "system_overloaded")
        assert (await client.post("/api/ocr/text", json={"mac": MAC, "text": "new"})).status_code == 202
        for started in await small.begin(room=9):
            await small.finish(started)
        assert (await act(client, expected_count=2)).json() == {"matched": 2, "redriven": 2, "left": 0}


async def test_a_letter_is_driven_again_once(rig: Rig, client: httpx.AsyncClient) -> None:
    """Whoever else asks at the same moment, and however often."""
    old = {await die(rig, client) for _ in range(5)}
    answers = await asyncio.gather(*(act(client, expected_count=5) for _ in range(4)))
    assert {answer.status_code for answer in answers} <= {200, 404, 409}
    assert sum(answer.json().get("redriven", 0) for answer in answers) == 5
    fresh = (await rig.rows())[5:]
    assert len(fresh) == 5
    assert {str(row["redrive_of"]) for row in fresh} == old
    assert await rig.pending() == 5


async def test_an_objects_letters_keep_their_order(rig: Rig, client: httpx.AsyncClient) -> None:
    """They run again in the order in which they were accepted."""
    old = [await die(rig, client, mac=None, object="door") for _ in range(3)]
    await act(client, expected_count=3)
    assert [str(row["redrive_of"]) for row in (await rig.rows())[3:]] == old


async def test_a_letter_of_a_letter(rig: Rig, client: httpx.AsyncClient) -> None:
    """One that dies again is a letter again; purging it takes its history along, with the image they share."""
    image = {"mac": MAC, "image": base64.b64encode(png()).decode()}
    first = (await client.post("/api/ocr/image", json=image)).json()["task_id"]
    [started] = await rig.begin("ocr")
    await rig.finish(started, TaskState.DEAD, error=TaskError("out_of_memory", "x"))
    await act(client, expected_count=1)
    [started] = await rig.begin("ocr")
    assert started.blob is not None
    assert await rig.blobs.get(started.blob), "the new task has the image"
    await rig.finish(started, TaskState.DEAD, error=TaskError("out_of_memory", "x"))
    second = str(started.delivery.task_id)
    [item] = (await told(client, "/api/dead-letters"))["items"]
    assert (item["id"], item["redrive_of"]) == (second, first)
    await die(rig, client)
    answer = await act(client, "purge", filter={"kind": "image"}, expected_count=1)
    assert (answer.status_code, answer.json()) == (200, {"matched": 1, "purged": 1, "left": 0})
    for task_id in (first, second):
        problem(await client.get(f"/api/tasks/{task_id}"), 404, "not_found")
    with pytest.raises(BlobMissing):
        await rig.blobs.get(started.blob)
    assert len(await rig.rows()) == 1, "other letters stay"
    assert (await rig.audited())[-1] == (
        "purge_dead_letters",
        "dead_letters",
        {"filter": {"kind": "image"}, "matched": 1, "count": 1},
    )


async def test_a_purge_spares_what_is_being_driven_again(rig: Rig, client: httpx.AsyncClient) -> None:
    """A letter is purged or driven again, never both."""
    for _ in range(6):
        await die(rig, client)
    answers = await asyncio.gather(
        *(act(client, action, expected_count=6) for action in ("redrive", "purge", "redrive", "purge"))
    )
    done = [answer.json() for answer in answers if answer.status_code == 200]
    assert sum(answer.get("redriven", 0) + answer.get("purged", 0) for answer in done) == 6
    rows = await rig.rows()
    assert {row["state"] for row in rows if row["redrive_of"] is not None} <= {"queued"}
    for row in rows:
        if row["redrive_of"] is not None:
            assert row["redrive_of"] in {one["id"] for one in rows}


async def test_what_redis_missed_is_queued_later(rig: Rig, client: httpx.AsyncClient) -> None:
    """The rows are committed: the reconciler finds them."""
    await die(rig, client)
    generation = await rig.clients.commands.get(rig.queue.keys.generation)
    assert generation is not None
    await rig.clients.commands.delete(rig.queue.keys.generation)
    assert (await act(client, expected_count=1)).json()["redriven"] == 1
    await rig.clients.commands.set(rig.queue.keys.generation, generation)
    assert (
        await Reconciler(
            rig.queue, rig.ledger, rig.settings.scheduler, rig.settings.lanes, patience_seconds=0
        ).run_once()
        == 1
    )
    assert len(await rig.begin()) == 1


async def test_letters_of_a_stranger(rig: Rig, client: httpx.AsyncClient) -> None:
    """Are not seen, driven or purged; and looking needs an admin's key."""
    old = await die(rig, client)
    async with rig.client("other") as stranger:
        assert await letters(stranger) == []
        assert (await told(stranger, "/api/dead-letters/groups")) == {"items": [], "count": 0}
        for action in ("redrive", "purge"):
            problem(await act(stranger, action, expected_count=1), 404, "not_found")
            assert (await act(stranger, action, dry_run=True)).json()["matched"] == 0
    assert await letters(client) == [old]
    async with rig.client("read") as reader:
        problem(await reader.get("/api/dead-letters"), 403, "forbidden")


async def test_died_at_is_when_it_died(rig: Rig, client: httpx.AsyncClient) -> None:
    """Not when it was accepted."""
    old = await die(rig, client)
    [item] = (await told(client, "/api/dead-letters"))["items"]
    [row] = await rig.rows()
    assert row["id"] == UUID(old)
    assert datetime.fromisoformat(item["died_at"]) == row["finished_at"]


async def test_a_purge_ends_while_somebody_waits(
    rig: Rig, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One request removes so many and says how many are left; chunks follow each other until then."""
    monkeypatch.setattr("detectsched.api.routes.dead_letters._MOST_PURGED", 3)
    monkeypatch.setattr("detectsched.api.redrive._CHUNK", 2)
    wanted = [await die(rig, client) for _ in range(4)]
    answer = await act(client, "purge", expected_count=4)
    assert answer.json() == {"matched": 4, "purged": 3, "left": 1}
    assert await letters(client) == wanted[3:], "the oldest go first"
    assert (await rig.audited())[0][2]["count"] == 3
