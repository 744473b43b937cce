"""Devices that detect by themselves report what they found: each report is stored once, and counted."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from detectsched.clock import utc_now
from detectsched.db.recount import compare
from detectsched.db.statistics import count_due
from tests.api.rig import MAC, Rig, problem
from tests.api.test_devices import told

KNOWN = "aa:bb:cc:dd:ee:01"
NDJSON = {"Content-Type": "application/x-ndjson"}
EVER = (datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC))


def report(identity: str = "r-1", **fields: Any) -> dict[str, Any]:
    """Return a good report."""
    hits = [{"word": "刷单", "category": "fraud", "level": 3, "count": 2}, {"word": "gift card"}]
    return {"report_id": identity, "mac": MAC, "kind": "text", "hits": hits} | fields


@pytest.mark.parametrize("path", ["/api/decter", "/api/detections"])
async def test_a_report_is_stored_once(rig: Rig, client: httpx.AsyncClient, path: str) -> None:
    """201, then 200 and marked for the same again, 409 for another under its id; another tenant has its own ids."""
    first = await client.post(path, json=report(detector="app 1.2"))
    assert first.status_code == 201
    receipt = first.json()
    assert (receipt["report_id"], receipt["replayed"], receipt["clock_was_wrong"]) == ("r-1", False, False)
    assert receipt["detected_at"] <= receipt["received_at"]
    again = await client.post(path, json=report(detector="app 1.2", mac="AABB.CCDD.EE01"))
    assert (again.status_code, again.headers["idempotency-replayed"]) == (200, "true")
    assert again.json() == receipt | {"replayed": True}
    problem(await client.post(path, json=report(detector="other")), 409, "idempotency_mismatch", field="report_id")
    async with rig.client("other") as stranger:
        assert (await stranger.post(path, json=report())).status_code == 201
        assert len((await told(stranger, "/api/detections"))["items"]) == 1
    [item] = (await told(client, "/api/detections"))["items"]
    assert item == {
        "report_id": "r-1",
        "mac": KNOWN,
        "kind": "text",
        "detected_at": receipt["detected_at"],
        "clock_was_wrong": False,
        "received_at": receipt["received_at"],
        "hit_count": 3,
        "top_level": 3,
        "hits": [
            {"word": "刷单", "category": "fraud", "level": 3, "count": 2},
            {"word": "gift card", "category": "default", "level": 1, "count": 1},
        ],
        "detector": "app 1.2",
    }
    assert KNOWN in [device["mac"] for device in (await told(client, "/api/devices"))["items"]]


async def test_one_report_posted_many_times_at_once(rig: Rig, client: httpx.AsyncClient) -> None:
    """One is told that it was stored, the others that it had been; under two contents one side is refused."""
    answers = await asyncio.gather(*(client.post("/api/detections", json=report()) for _ in range(20)))
    assert sorted(answer.status_code for answer in answers) == [200] * 19 + [201]
    pairs = await asyncio.gather(
        *(client.post("/api/detections", json=report("r-2", detector=str(number % 2))) for number in range(20))
    )
    assert sorted(answer.status_code for answer in pairs) == [200] * 9 + [201] + [409] * 10
    assert await count_due(rig.ledger, limit=10) == 2


async def test_many_at_once(rig: Rig, client: httpx.AsyncClient) -> None:
    """As an array and as lines: whatever is wrong with one is told by its number, and the others are stored."""
    good, bad = report("a"), report("b", mac="nonsense")
    answer = await client.post("/api/decter", json=[good, bad, 7, report("c", hits=[]), good, good | {"kind": "image"}])
    assert answer.status_code == 200
    document = answer.json()
    assert (document["stored"], document["refused"]) == (3, 3)
    assert [(item["line"], item["status"]) for item in document["results"]] == [
        (1, 201),
        (2, 422),
        (3, 422),
        (4, 201),
        (5, 200),
        (6, 409),
    ]
    assert document["results"][1]["problem"]["instance"] == "/api/decter#2"
    assert document["results"][1]["problem"]["errors"][0]["field"] == "mac"
    assert document["results"][4]["detection"]["replayed"]
    lines = b"\n".join([json.dumps(good).encode(), b"", b"{", json.dumps(report("d")).encode(), b"\xff"])
    document = (await client.post("/api/detections", content=lines, headers=NDJSON)).json()
    assert [(item["line"], item["status"]) for item in document["results"]] == [(1, 200), (3, 400), (4, 201), (5, 400)]
    assert await count_due(rig.ledger, limit=10) == 3


async def test_bounds(rig: Rig, client: httpx.AsyncClient) -> None:
    """Of numbers and sizes; nothing is stored of what is refused."""
    for wrong, field in (
        ({"report_id": ""}, "report_id"),
        ({"report_id": "ä"}, "report_id"),
        ({"report_id": "x" * 201}, "report_id"),
        ({"mac": None}, "mac"),
        ({"kind": "smell"}, "kind"),
        ({"hits": [{"word": "w"}] * 501}, "hits"),
        ({"hits": [{"word": "a\0"}]}, "hits.0.word"),
        ({"hits": [{"word": ""}]}, "hits.0.word"),
        ({"hits": [{"word": "w", "level": 101}]}, "hits.0.level"),
        ({"hits": [{"word": "w", "count": 0}]}, "hits.0.count"),
        ({"detector": "x" * 201}, "detector"),
        ({"text": "what was examined"}, "text"),
        ({"detected_at": 5}, "detected_at"),
        ({"extra": 1}, "extra"),
    ):
        problem(await client.post("/api/detections", json=report(**wrong)), 422, "invalid_request", field=field)
    for body in (b"[", b'[{"a": 1}', b"[1,]"):
        answer = await client.post("/api/detections", content=body, headers={"Content-Type": "application/json"})
        problem(answer, 400, "malformed")
    for empty in (b"[]", b" [ ] "):
        answer = await client.post("/api/detections", content=empty, headers={"Content-Type": "application/json"})
        problem(answer, 422, "invalid_request")
    problem(await client.post("/api/detections", content=b"\n" * 10, headers=NDJSON), 422, "invalid_request")
    many = [1] * (rig.settings.api.max_batch_lines + 1)
    problem(await client.post("/api/detections", json=many), 413, "too_large")
    problem(
        await client.post("/api/detections", content=b"x", headers={"Content-Type": "text/csv"}),
        415,
        "unsupported_media",
    )
    assert (await told(client, "/api/detections"))["items"] == []


async def test_wrong_clocks_lose_nothing(rig: Rig, client: httpx.AsyncClient) -> None:
    """A time that cannot be is replaced by that of arrival, and marked; late reports count where they belong."""
    now = utc_now()
    for identity, at, wrong in (
        ("late", now - timedelta(days=30), False),
        ("too late", now - timedelta(days=32), True),
        ("1970", datetime(1970, 1, 1, tzinfo=UTC), True),
        ("ahead", now + timedelta(minutes=4), False),
        ("too far ahead", now + timedelta(minutes=6), True),
    ):
        name = identity.replace(" ", "-")
        receipt = (await client.post("/api/detections", json=report(name, detected_at=at.isoformat()))).json()
        assert receipt["clock_was_wrong"] is wrong, identity
        told_at = datetime.fromisoformat(receipt["detected_at"])
        assert (told_at == at) is not wrong
        again = await client.post("/api/detections", json=report(name, detected_at=at.isoformat()))
        assert again.json() == receipt | {"replayed": True}, "a repeat is the same whenever it comes"
    assert await count_due(rig.ledger, limit=10) == 5
    assert (await compare(rig.ledger, *EVER)).different == 0
    async with rig.ledger.connection() as connection:
        late = await connection.fetchval("SELECT tasks FROM stat_hourly WHERE hour < now() - interval '29 days'")
        words = await connection.fetch("SELECT word, sum(hits)::int AS hits FROM stat_word GROUP BY 1 ORDER BY 2")
    assert late == 1
    assert [(row["word"], row["hits"]) for row in words] == [("gift card", 5), ("刷单", 10), ("", 15)]


async def test_reports_are_listed(client: httpx.AsyncClient) -> None:
    """By every filter, page after page, the latest arrival first."""
    early = (utc_now() - timedelta(days=2)).isoformat()
    await client.post("/api/detections", json=report("a", detected_at=early))
    await client.post("/api/detections", json=report("b", mac="02:00:00:00:00:09", kind="image", hits=[{"word": "x"}]))
    await client.post("/api/detections", json=report("c", hits=[]))
    since = (utc_now() - timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")

    async def ids(query: str = "") -> list[str]:
        return [item["report_id"] for item in (await told(client, f"/api/detections{query}"))["items"]]

    for query, wanted in {
        "": ["c", "b", "a"],
        "?mac=02-00-00-00-00-09": ["b"],
        "?kind=text": ["c", "a"],
        "?word=gift%20card": ["a"],
        "?category=fraud": ["a"],
        "?min_level=2": ["a"],
        "?has_hits=true": ["b", "a"],
        "?has_hits=false": ["c"],
        f"?since={since}": ["c", "b"],
        f"?until={since}": ["a"],
    }.items():
        assert await ids(query) == wanted, query
    page = await told(client, "/api/detections?limit=2")
    rest = await told(client, f"/api/detections?limit=2&cursor={page['next_cursor']}")
    assert [item["report_id"] for item in page["items"] + rest["items"]] == ["c", "b", "a"]
    assert rest["next_cursor"] is None
    for query, field in {"mac=x": "mac", "cursor=x": "cursor", "limit=0": "limit", "wrod=x": "wrod"}.items():
        problem(await client.get(f"/api/detections?{query}"), 422, "invalid_request", field=field)
    problem(await client.get(f"/api/detections?since={since}&until={since}"), 422, "invalid_request", field="since")
