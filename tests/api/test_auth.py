"""Who may do what: deny by default, scopes, tenants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from uuid import uuid4

import httpx
import pytest
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from detectsched.api.app import create_app
from detectsched.api.auth import METRICS_PATH, PUBLIC_PATHS, KeyCache, Require, require_admin_or_this_machine
from detectsched.clock import utc_now
from detectsched.db.api_keys import Scope, authenticate, create_key, revoke_key
from detectsched.errors import Unauthenticated
from tests.api.rig import MAC, Rig, bearer, png, problem
from tests.api.test_submit import text

WANTED = {
    "submit_image": Scope.SUBMIT,
    "submit_text": Scope.SUBMIT,
    "submit_batch": Scope.SUBMIT,
    "handle_text": Scope.SUBMIT,
    "handle_calculation": Scope.SUBMIT,
    "get_object": Scope.READ,
    "change_object": Scope.ADMIN,
    "cancel_task": Scope.SUBMIT,
    "get_task": Scope.READ,
    "list_tasks": Scope.READ,
    "list_word_lists": Scope.READ,
    "get_word_list": Scope.READ,
    "get_watermark": Scope.READ,
    "get_openapi": Scope.READ,
    "publish_word_list": Scope.ADMIN,
    "delete_word_list": Scope.ADMIN,
    "get_word_list_draft": Scope.READ,
    "put_word_list_draft": Scope.ADMIN,
    "change_word_list_draft": Scope.ADMIN,
    "discard_word_list_draft": Scope.ADMIN,
    "publish_word_list_draft": Scope.ADMIN,
    "list_word_list_versions": Scope.READ,
    "get_word_list_version": Scope.READ,
    "compare_word_list": Scope.READ,
    "roll_back_word_list": Scope.ADMIN,
    "import_word_list": Scope.ADMIN,
    "try_word_lists": Scope.ADMIN,
    "report_word_list_terms": Scope.READ,
    "export_word_list": Scope.READ,
    "create_encryption_key": Scope.ADMIN,
    "list_encryption_keys": Scope.ADMIN,
    "retire_encryption_key": Scope.ADMIN,
    "get_current_encryption_key": Scope.SUBMIT,
    "read_metrics": Scope.ADMIN,
    "explain_task": Scope.READ,
    "list_devices": Scope.READ,
    "get_device": Scope.READ,
    "change_device": Scope.ADMIN,
    "pause_device": Scope.ADMIN,
    "resume_device": Scope.ADMIN,
    "pause_object": Scope.ADMIN,
    "resume_object": Scope.ADMIN,
    "get_tenant": Scope.READ,
    "change_tenant": Scope.ADMIN,
    "pause_tenant": Scope.ADMIN,
    "resume_tenant": Scope.ADMIN,
    "list_lanes": Scope.READ,
    "get_scaling": Scope.READ,
    "pause_lane": Scope.OPERATE,
    "resume_lane": Scope.OPERATE,
    "list_runners": Scope.READ,
    "drain_runner": Scope.OPERATE,
    "resume_runner": Scope.OPERATE,
    "report_tasks": Scope.READ,
    "report_tenants": Scope.OPERATE,
    "report_words": Scope.READ,
    "read_audit": Scope.ADMIN,
    "read_platform_audit": Scope.OPERATE,
    "report_detections": Scope.SUBMIT,
    "report_to_decter": Scope.SUBMIT,
    "list_detections": Scope.READ,
    "list_dead_letters": Scope.ADMIN,
    "group_dead_letters": Scope.ADMIN,
    "redrive_dead_letters": Scope.ADMIN,
    "purge_dead_letters": Scope.ADMIN,
    "list_command_policies": Scope.READ,
    "get_command_policy": Scope.READ,
    "put_command_policy": Scope.ADMIN,
    "delete_command_policy": Scope.ADMIN,
    "list_commands": Scope.READ,
    "get_command": Scope.READ,
    "take_device_commands": Scope.SUBMIT,
    "acknowledge_device_command": Scope.SUBMIT,
    "take_object_commands": Scope.SUBMIT,
    "acknowledge_object_command": Scope.SUBMIT,
    "create_webhook": Scope.ADMIN,
    "list_webhooks": Scope.ADMIN,
    "get_webhook": Scope.ADMIN,
    "change_webhook": Scope.ADMIN,
    "delete_webhook": Scope.ADMIN,
    "rotate_webhook_secret": Scope.ADMIN,
    "rotate_callback_secret": Scope.ADMIN,
    "list_webhook_deliveries": Scope.ADMIN,
    "redrive_webhook_deliveries": Scope.ADMIN,
}
"""The scope of every route that is not public; a new route has to be written down here."""


def routes(found: Sequence[BaseRoute]) -> Iterator[APIRoute]:
    """Yield every route, those of included routers as well."""
    for route in found:
        if isinstance(route, APIRoute):
            yield route
        else:
            yield from routes(route.original_router.routes)  # type: ignore[attr-defined]


def calls(dependant: Dependant) -> Iterator[Any]:
    """Yield everything that a route depends on."""
    for inner in dependant.dependencies:
        yield inner.call
        yield from calls(inner)


def path_of(route: APIRoute) -> str:
    """Return a path that the route matches."""
    names = {
        "{task_id}": str(uuid4()),
        "{list_id}": "a-list",
        "{policy_id}": "a-policy",
        "{command_id}": str(uuid4()),
        "{webhook_id}": str(uuid4()),
        "{mac}": MAC,
        "{name}": "door",
        "{lane}": "text",
        "{label}": "host",
    }
    path = route.path_format
    for name, value in names.items():
        path = path.replace(name, value)
    return path


async def test_every_route_names_its_scope(rig: Rig) -> None:
    """Each route has the scope written down above, or is one of the few public paths."""
    for route in routes(create_app(rig.context).routes):
        guards = list(calls(route.dependant))
        if route.path in PUBLIC_PATHS:
            assert route.name not in WANTED
        elif route.path == METRICS_PATH:
            assert require_admin_or_this_machine in guards
        else:
            assert Require(WANTED[route.name]) in guards, route.name


async def test_every_route_wants_a_key_with_its_scope(rig: Rig, subtests: pytest.Subtests) -> None:
    """No key: 401, before anything else is said. A key of another scope: 403. The right one: neither."""
    app = create_app(rig.context)
    # As seen from another machine.
    transport = httpx.ASGITransport(app, client=("192.0.2.7", 4711))
    async with httpx.AsyncClient(transport=transport, base_url="http://api") as client:
        for route in routes(app.routes):
            method = next(iter(route.methods or ()))
            for key in (None, *Scope):
                with subtests.test(route.name, key=key):
                    headers = bearer(rig.keys[key]) if key else {}
                    answer = await client.request(method, path_of(route), headers=headers)
                    if route.path in PUBLIC_PATHS:
                        assert answer.status_code == 200
                    elif key is None:
                        problem(answer, 401, "unauthenticated")
                        assert answer.headers["www-authenticate"].startswith("Bearer")
                    elif key is WANTED[route.name] or (key is Scope.ADMIN and WANTED[route.name] is not Scope.OPERATE):
                        assert answer.status_code not in {401, 403}
                    else:
                        assert WANTED[route.name] in problem(answer, 403, "forbidden")["detail"]


async def test_all_bad_keys_look_the_same(rig: Rig) -> None:
    """Missing, malformed, unknown, wrong secret, expired, revoked: one answer. The good one works in both headers."""
    good = rig.keys["acme"]
    identity = good.split("_")[1]
    expired = await create_key(rig.ledger, tenant="acme", name="x", scopes=[Scope.ADMIN], expires_at=utc_now())
    revoked = await create_key(rig.ledger, tenant="acme", name="x", scopes=[Scope.ADMIN])
    await revoke_key(rig.ledger, revoked.split("_")[1])
    wrong = (
        f"ds_{identity}_{'A' * 43}",
        f"ds_aaaaaaaaaaaa_{'A' * 43}",
        "ds_x_y",
        "",
        "\x7f",
        good[:-1],
        expired,
        revoked,
    )
    bodies = set()
    async with rig.client(None) as client:
        for key in wrong:
            for headers in (bearer(key), {"X-API-Key": key}, {"Authorization": f"Basic {key}"}):
                answer = await client.get("/api/tasks", headers=headers)
                problem(answer, 401, "unauthenticated")
                bodies.add(answer.text)
        problem(await client.get("/api/nothing"), 401, "unauthenticated")
        for headers in (bearer(good), {"authorization": f"bearer  {good}"}, {"X-API-Key": good}):
            assert (await client.get("/api/tasks", headers=headers)).status_code == 200
    assert len(bodies) == 1


async def test_nobody_without_a_key_has_a_body_read(rig: Rig) -> None:
    """The answer comes before the first byte is asked for."""
    asked = False

    async def receive() -> dict[str, Any]:
        nonlocal asked
        asked = True
        return {"type": "http.request", "body": b"x", "more_body": False}

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/api/ocr/text", "query_string": b"", "headers": []}
    await create_app(rig.context)(scope, receive, send)
    assert sent[0]["status"] == 401
    assert not asked


async def test_a_key_is_believed_for_a_while_only(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """One look-up per period; after it a revoked key is refused, a new one works at once, and memory is bounded."""
    now = 100.0
    looked_up = 0

    async def counted(*arguments: Any) -> Any:
        nonlocal looked_up
        looked_up += 1
        return await authenticate(*arguments)

    monkeypatch.setattr("detectsched.api.auth.monotonic", lambda: now)
    monkeypatch.setattr("detectsched.api.auth.authenticate", counted)
    cache = KeyCache(rig.ledger, seconds=10.0, most=2)
    key = rig.keys["acme"]
    assert (await cache.principal_of(key)).tenant == "acme"
    await revoke_key(rig.ledger, key.split("_")[1])
    now = 109.9
    await cache.principal_of(key)
    assert looked_up == 1
    now = 110.0
    for _ in range(2):
        with pytest.raises(Unauthenticated):
            await cache.principal_of(key)
    assert looked_up == 3
    for name in ("other", "read", "submit", "other"):
        await cache.principal_of(rig.keys[name])
    assert looked_up == 7, "the oldest of three was forgotten"
    assert key not in repr(vars(cache)), "keys themselves are not kept"


async def test_tenants_do_not_see_each_other(rig: Rig, client: httpx.AsyncClient) -> None:
    """Whatever is named by id or found by filter: what is another tenant's looks like what does not exist."""
    task_id = (await client.post("/api/ocr/text", json=text(), headers={"Idempotency-Key": "k"})).json()["task_id"]
    files = {"image": ("i.png", png(), "image/png")}
    await client.post("/api/ocr/image", files=files, data={"object": "door"})
    words = {"name": "n", "words": [{"text": "w"}]}
    assert (await client.put("/api/word-lists/mine", json=words)).status_code == 200
    unknown = uuid4()
    async with rig.client("other") as stranger:
        for method, path in (("GET", "/api/tasks/{}"), ("GET", "/api/tasks/{}?wait=5"), ("DELETE", "/api/tasks/{}")):
            foreign = await stranger.request(method, path.format(task_id))
            missing = await stranger.request(method, path.format(unknown))
            problem(foreign, 404, "not_found")
            assert foreign.text.replace(task_id, "") == missing.text.replace(str(unknown), "")
        for query in ("", f"?mac={MAC}", "?object=door", "?state=queued", "?lane=text", "?has_hits=false"):
            assert (await stranger.get(f"/api/tasks{query}")).json() == {"items": [], "next_cursor": None}
        problem(await stranger.get("/api/word-lists/mine"), 404, "not_found")
        assert (await stranger.get("/api/word-lists")).json() == {"items": []}
        # The same id is another list, and does not replace the first.
        assert (await stranger.put("/api/word-lists/mine", json=words)).json()["version"] == 1
        # The same device of another tenant is another device.
        own = (await stranger.post("/api/ocr/text", json=text())).json()["task_id"]
        assert [item["id"] for item in (await stranger.get(f"/api/tasks?mac={MAC}")).json()["items"]] == [own]
    assert len((await client.get("/api/tasks")).json()["items"]) == 2
    assert (await client.get("/api/word-lists/mine")).json()["version"] == 1
    assert await rig.state_of(task_id) == "queued"
