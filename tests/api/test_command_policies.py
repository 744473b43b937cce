"""Policies: which command follows which hits."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from detectsched.db import command_policies
from tests.api.rig import Rig, problem
from tests.api.test_devices import told

LOCK: dict[str, Any] = {
    "kind": "lock_screen",
    "min_level": 3,
    "max_level": 9,
    "categories": ["fraud", "赌博"],
    "message": "Found ${word} ($level), costs $$5",
}


async def put(client: httpx.AsyncClient, name: str = "lock", **body: Any) -> httpx.Response:
    """Put a policy."""
    return await client.put(f"/api/command-policies/{name}", json={"kind": "notify", **body})


async def test_a_policy_is_put_shown_replaced_and_deleted(rig: Rig, client: httpx.AsyncClient) -> None:
    """Each of it in the audit log, with whose key did it in which request."""
    answer = await client.put("/api/command-policies/lock", json=LOCK, headers={"X-Request-Id": "r-1"})
    assert answer.status_code == 200, answer.text
    made = answer.json()
    assert {name: made[name] for name in LOCK} == LOCK
    assert (made["id"], made["payload"], made["enabled"]) == ("lock", {}, True)
    assert await told(client, "/api/command-policies/lock") == made
    replaced = (await put(client, payload={"run": ["${task_id}", 1, None, {"a": True}]}, kind="custom")).json()
    assert (replaced["min_level"], replaced["max_level"], replaced["categories"]) == (1, None, [])
    assert replaced["created_at"] == made["created_at"]
    assert replaced["updated_at"] > made["updated_at"]
    assert await told(client, "/api/command-policies") == {"items": [replaced]}
    assert (await client.delete("/api/command-policies/lock")).status_code == 204
    problem(await client.delete("/api/command-policies/lock"), 404, "not_found")
    problem(await client.get("/api/command-policies/lock"), 404, "not_found")
    audited = await rig.audited()
    assert [(action, subject) for action, subject, _ in audited] == [
        ("put_command_policy", "lock"),
        ("put_command_policy", "lock"),
        ("delete_command_policy", "lock"),
    ]
    assert audited[0][2]["message"] == LOCK["message"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"kind": "explode"}, "kind"),
        ({"kind": None}, "kind"),
        ({"min_level": 0}, "min_level"),
        ({"min_level": 101}, "min_level"),
        ({"min_level": 3, "max_level": 2}, ""),
        ({"categories": [""]}, "categories.0"),
        ({"categories": ["a\x00"]}, "categories.0"),
        ({"message": "x" * 1001}, "message"),
        ({"message": "a\x00b"}, "message"),
        ({"message": "${mac}"}, "message"),
        ({"message": "5 $"}, "message"),
        ({"message": "${level"}, "message"),
        ({"payload": {"a": 1}}, ""),
        ({"kind": "custom", "payload": {"a": "x" * 5000}}, "payload"),
        ({"kind": "custom", "payload": {"a": "x\x00"}}, "payload"),
        ({"kind": "custom", "payload": {"a": ["$nothing"]}}, "payload"),
        ({"kind": "custom", "payload": []}, "payload"),
        ({"levels": 5}, "levels"),
    ],
)
async def test_a_wrong_policy_is_refused(client: httpx.AsyncClient, body: dict[str, Any], field: str) -> None:
    """Naming the field."""
    problem(await put(client, **body), 422, "invalid_request", field=field or None)


async def test_numbers_that_json_does_not_have(client: httpx.AsyncClient) -> None:
    """Are refused before the ledger sees them."""
    for number in ("NaN", "Infinity", "1e999"):
        answer = await client.put(
            "/api/command-policies/x",
            content='{"kind":"custom","payload":{"a":%s}}' % number,  # noqa: UP031 - braces would be doubled
            headers={"Content-Type": "application/json"},
        )
        assert answer.status_code in {400, 422}, (number, answer.text)


async def test_a_tenant_has_so_many_policies(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them are looked at for every task with hits."""
    monkeypatch.setattr(command_policies, "MOST_POLICIES", 2)
    for name in ("a", "b"):
        assert (await put(client, name)).status_code == 200
    problem(await put(client, "c"), 409, "conflict")
    assert (await put(client, "b")).status_code == 200, "replacing one is no more"


async def test_policies_of_a_stranger(rig: Rig, client: httpx.AsyncClient) -> None:
    """Are not seen, changed or deleted."""
    await put(client, min_level=7)
    async with rig.client("other") as stranger:
        assert await told(stranger, "/api/command-policies") == {"items": []}
        problem(await stranger.get("/api/command-policies/lock"), 404, "not_found")
        problem(await stranger.delete("/api/command-policies/lock"), 404, "not_found")
        await put(stranger, min_level=1)
    assert (await told(client, "/api/command-policies/lock"))["min_level"] == 7
