"""The audit log is read by filter, page after page, or whole; each tenant sees its own."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import httpx
import pytest

from detectsched.task import normalise_mac
from tests.api.rig import MAC, Rig, problem
from tests.api.test_devices import told
from tests.api.test_tasks import submit

MAC_KEPT = normalise_mac(MAC)
_ENTRY = """
INSERT INTO audit_log (tenant, at, actor, action, subject, outcome, request_id, detail)
VALUES ($1, '2026-03-01T00:00:00Z'::timestamptz + $2 * interval '1 hour', $3, $4, $5, 'done', $6, $7)
"""


async def fill(rig: Rig) -> None:
    """Write entries of two tenants and the platform."""
    async with rig.ledger.connection() as connection:
        for number, (tenant, actor, action, subject, request_id, detail) in enumerate(
            [
                ("acme", "key a", "pause", "device 1", "q1", {"reason": "x"}),
                ("acme", "key a", "resume", "device 1", "q2", {}),
                ("acme", "key b", "pause", "=device 2", None, {"reason": "=1,\n+2"}),
                ("other", "key c", "pause", "device 1", "q3", {"mac": MAC_KEPT, "object": "front door"}),
                ("", "key o", "pause", "lane:text", "q4", {}),
            ]
        ):
            await connection.execute(_ENTRY, tenant, number, actor, action, subject, request_id, detail)


async def test_what_a_request_does_can_be_found(rig: Rig, client: httpx.AsyncClient) -> None:
    """With who asked, what was done to what, and the id of the request."""
    await submit(client)
    await client.post(f"/api/devices/{MAC}/pause", json={"reason": "floods"}, headers={"X-Request-Id": "mine-1"})
    [entry] = (await told(client, "/api/audit?request_id=mine-1"))["items"]
    assert (entry["action"], entry["outcome"], entry["detail"]) == ("pause", "done", {"reason": "floods"})
    assert entry["actor"] == f"key {rig.keys['acme'].split('_')[1]}"


async def test_entries_are_filtered_and_paged(rig: Rig, client: httpx.AsyncClient) -> None:
    """By every filter; the latest first; without gap or repeat."""
    await fill(rig)

    async def subjects(query: str) -> list[str]:
        items = (await told(client, f"/api/audit?{query}"))["items"]
        return [f"{item['action']} {item['subject']}" for item in items]

    first, second, third = "pause device 1", "resume device 1", "pause =device 2"
    for query, wanted in {
        "": [third, second, first],
        "actor=key%20a": [second, first],
        "action=pause": [third, first],
        "subject=device%201": [second, first],
        "request_id=q2": [second],
        "since=2026-03-01T01:00:00Z": [third, second],
        "until=2026-03-01T01:00:00Z": [first],
        "action=pause&actor=key%20b": [third],
        "actor=nobody": [],
    }.items():
        assert await subjects(query) == wanted, query
    seen: list[int] = []
    cursor = ""
    while True:
        page = await told(client, f"/api/audit?limit=1{cursor}")
        seen += [item["id"] for item in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert len(seen) == 3
    assert seen == sorted(seen, reverse=True)
    async with rig.client("boss") as boss:
        assert [item["subject"] for item in (await told(boss, "/api/audit/platform"))["items"]] == ["lane:text"]


async def test_hits_are_found_by_whose_they_were(rig: Rig, client: httpx.AsyncClient) -> None:
    """By device and by object, in any spelling; those of other tenants are not."""
    await fill(rig)
    async with rig.ledger.connection() as connection:
        for number, owner in enumerate([{"mac": MAC_KEPT, "object": None}, {"mac": None, "object": "front door"}]):
            await connection.execute(_ENTRY, "acme", number, "runner r", "hit", f"task {number}", None, owner)
    for query, subject in ((f"mac={MAC}", "task 0"), ("object=Front%20%20DOOR", "task 1")):
        for more in ("", "&format=ndjson"):
            answer = await client.get(f"/api/audit?{query}{more}")
            found = [json.loads(line) for line in answer.text.splitlines()] if more else answer.json()["items"]
            assert [entry["subject"] for entry in found] == [subject]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("actor=", "actor"),
        ("action=a%00", "action"),
        ("since=yesterday", "since"),
        ("since=2026-01-01T00:00:00Z&until=2026-01-01T00:00:00Z", "since"),
        ("cursor=abc", "cursor"),
        ("limit=501", "limit"),
        ("mac=nonsense", "mac"),
        ("object=%20", "object"),
        ("format=xlsx", "format"),
        ("acton=pause", "acton"),
    ],
)
async def test_a_wrong_filter_is_refused(client: httpx.AsyncClient, query: str, field: str) -> None:
    """Rather than meaning all entries."""
    problem(await client.get(f"/api/audit?{query}"), 422, "invalid_request", field=field)


async def test_it_is_exported_whole(rig: Rig, client: httpx.AsyncClient) -> None:
    """As CSV without formulas, and line by line as it is."""
    await fill(rig)
    answer = await client.get("/api/audit?format=csv&limit=1")
    head, *lines = csv.reader(io.StringIO(answer.text, newline=""))
    assert head == ["id", "at", "actor", "action", "subject", "outcome", "request_id", "detail"]
    assert [line[1:7] for line in lines] == [
        ["2026-03-01T02:00:00Z", "key b", "pause", "'=device 2", "done", ""],
        ["2026-03-01T01:00:00Z", "key a", "resume", "device 1", "done", "q2"],
        ["2026-03-01T00:00:00Z", "key a", "pause", "device 1", "done", "q1"],
    ]
    answer = await client.get("/api/audit?actor=key%20b", headers={"Accept": "application/x-ndjson"})
    assert answer.headers["content-type"] == "application/x-ndjson"
    [entry] = [json.loads(line) for line in answer.text.splitlines()]
    assert (entry["subject"], entry["detail"]) == ("=device 2", {"reason": "=1,\n+2"})
    [page] = (await told(client, "/api/audit?actor=key%20b"))["items"]
    shown: dict[str, Any] = page
    assert entry == shown
