"""Webhooks by the API: made, changed, rotated; what was told, and told again; callbacks of tasks."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import httpx
import pytest

from detectsched.clock import utc_now
from detectsched.dispatcher.relay import Relay
from detectsched.settings import Settings, WebhookSettings
from tests.api.rig import MAC, Rig, png, problem, rigged
from tests.api.test_command_policies import put
from tests.api.test_commands import hit
from tests.api.test_devices import told
from tests.api.test_tasks import submit
from tests.support import receiver as play
from tests.support.outbox import found
from tests.support.receiver import Receiver, receiving

NDJSON = {"Content-Type": "application/x-ndjson"}
PUBLIC = "https://hooks.example.com/hook"
LAX = WebhookSettings(
    allow_http=True, allow_networks=("127.0.0.0/8",), ports=(), max_per_tenant=3, max_attempts=1, timeout_seconds=1.0
)


@pytest.fixture
async def lax(settings: Settings) -> AsyncIterator[Rig]:
    """Give an API that lets webhooks be on this machine."""
    async with rigged(settings.model_copy(update={"webhooks": LAX})) as rig:
        yield rig


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """Give a receiver."""
    async with receiving() as running:
        yield running


async def relay(rig: Rig) -> None:
    """Send what is due, as a dispatcher would."""
    sender = Relay(rig.ledger, LAX, tick_seconds=600)
    await sender.run_once()
    await sender.settled()
    await sender.stop()


async def make(client: httpx.AsyncClient, url: str = PUBLIC, **body: Any) -> dict[str, Any]:
    """Make a webhook."""
    answer = await client.post("/api/webhooks", json={"url": url, **body})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def test_a_webhook_is_made_changed_and_deleted(rig: Rig, client: httpx.AsyncClient) -> None:
    """Its secret is shown once; the audit log has everything but the secret."""
    made = await make(client, events=["command.notify", "command.notify"])
    secret = made.pop("secret")
    assert len(base64.b64decode(secret.removeprefix("whsec_"))) == 32
    assert (made["url"], made["events"], made["enabled"]) == (PUBLIC, ["command.notify"], True)
    path = f"/api/webhooks/{made['id']}"
    assert await told(client, path) == made
    assert await told(client, "/api/webhooks") == {"items": [made]}
    off = (await client.patch(path, json={"enabled": False})).json()
    assert (off["enabled"], off["disabled_reason"]) == (False, "by_tenant")
    on = (await client.patch(path, json={"enabled": True, "url": f"{PUBLIC}/2", "events": ["command.custom"]})).json()
    assert on == {**made, "url": f"{PUBLIC}/2", "events": ["command.custom"]}
    assert (await client.delete(path)).status_code == 204
    for answer in (await client.get(path), await client.delete(path), await client.patch(path, json={"enabled": True})):
        problem(answer, 404, "not_found")
    audited = await rig.audited()
    assert [action for action, _, _ in audited] == [
        "create_webhook",
        "change_webhook",
        "change_webhook",
        "delete_webhook",
    ]
    assert secret not in repr(audited)
    every = (await make(client))["events"]
    assert every == ["command.notify", "command.lock_screen", "command.custom"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"url": "http://hooks.example.com/"}, "url"),
        ({"url": "https://10.0.0.1/"}, "url"),
        ({"url": "https://user:pass@hooks.example.com/"}, "url"),
        ({"url": "https://hooks.example.com:22/"}, "url"),
        ({"url": "nonsense"}, "url"),
        ({"url": ""}, "url"),
        ({"url": 5}, "url"),
        ({"events": []}, "events"),
        ({"events": ["command.explode"]}, "events.0"),
        ({"secret": "whsec_AAAA"}, "secret"),
    ],
)
async def test_a_wrong_webhook_is_refused(client: httpx.AsyncClient, body: dict[str, Any], field: str) -> None:
    """When it is made and when it is changed."""
    problem(await client.post("/api/webhooks", json={"url": PUBLIC, **body}), 422, "invalid_request", field=field)
    made = await make(client)
    problem(await client.patch(f"/api/webhooks/{made['id']}", json=body), 422, "invalid_request", field=field)
    problem(await client.patch(f"/api/webhooks/{made['id']}", json={}), 422, "invalid_request")


async def test_a_tenant_has_so_many_webhooks(lax: Rig) -> None:
    """The next one is a conflict."""
    async with lax.client() as client:
        for _ in range(3):
            await make(client)
        problem(await client.post("/api/webhooks", json={"url": PUBLIC}), 409, "conflict")


async def test_a_command_is_told_and_shown(lax: Rig, receiver: Receiver) -> None:
    """With the secret that the API gave; the command shows what became of it."""
    async with lax.client() as client:
        made = await make(client, receiver.url)
        await put(client, "tell", message="${word}")
        task_id = await hit(lax, client, 2)
        await relay(lax)
        [request] = receiver.received
        assert request.is_signed_by(made["secret"], now=utc_now().timestamp())
        assert request.document["data"]["message"] == "word2"
        [command] = (await told(client, "/api/commands"))["items"]
        assert request.message_id == request.document["data"]["command_id"] == command["id"]
        [delivery] = (await told(client, f"/api/commands/{command['id']}"))["deliveries"]
        assert (delivery["state"], delivery["attempts"], delivery["last_status"]) == ("delivered", 1, 204)
        assert (delivery["webhook_id"], delivery["task_id"], delivery["url"]) == (made["id"], task_id, None)
        assert delivery["next_at"] is None
        listed = await told(client, f"/api/webhook-deliveries?state=delivered&webhook_id={made['id']}")
        assert listed == {"items": [delivery], "next_cursor": None}
        rotated = (await client.post(f"/api/webhooks/{made['id']}/rotate-secret")).json()
        assert rotated["previous_until"] is not None
        await hit(lax, client, 3)
        await relay(lax)
        for secret in (made["secret"], rotated["secret"]):
            assert receiver.received[1].is_signed_by(secret, now=utc_now().timestamp())
        figures = (await client.get("/metrics")).text
        assert 'detectsched_webhook_attempts_total{outcome="delivered"} 2.0' in figures
        assert 'detectsched_webhook_messages{state="pending"} 0.0' in figures


async def test_dead_messages_are_driven_again(lax: Rig, receiver: Receiver) -> None:
    """Under the id they had, once each, with an entry in the audit log; those of strangers are not."""
    receiver.always = play.status(500)
    async with lax.client() as client, lax.client("other") as stranger:
        await put(client, "tell")
        made, quiet = await make(client, receiver.url), await make(client, receiver.url, events=["command.custom"])
        for _ in range(2):
            await hit(lax, client)
        await relay(lax)
        dead = (await told(client, "/api/webhook-deliveries?state=dead"))["items"]
        assert [(item["last_error"], item["last_status"]) for item in dead] == [("status_500", 500)] * 2
        figures = (await client.get("/metrics")).text
        assert 'detectsched_webhook_messages{state="dead"} 2.0' in figures
        assert 'detectsched_webhook_attempts_total{outcome="failed"} 2.0' in figures
        receiver.always = play.status(204)
        redrive = "/api/webhook-deliveries/redrive"
        assert (await stranger.post(redrive)).json() == {"redriven": 0}
        for nobodys in ({"webhook_id": quiet["id"]}, {"task_id": str(uuid4())}, {"event": "task.dead"}):
            assert (await client.post(redrive, json=nobodys)).json() == {"redriven": 0}
        before = await lax.audited()
        assert (await client.post(redrive, json={"limit": 1, "webhook_id": made["id"]})).json() == {"redriven": 1}
        assert (await client.post(redrive)).json() == {"redriven": 1}
        assert (await client.post(redrive)).json() == {"redriven": 0}
        assert (await lax.audited())[len(before) :] == [
            ("redrive_deliveries", "webhook_deliveries", {"filter": {"webhook_id": made["id"]}, "count": 1}),
            ("redrive_deliveries", "webhook_deliveries", {"filter": {}, "count": 1}),
        ]
        await relay(lax)
        ids = [request.message_id for request in receiver.received]
        assert sorted(ids[:2]) == sorted(ids[2:])
        assert (await told(client, "/api/webhook-deliveries?state=dead"))["items"] == []


async def test_pages_of_deliveries(lax: Rig) -> None:
    """The newest first, without gap or repeat."""
    async with lax.client() as client:
        await put(client, "tell")
        for _ in range(2):
            await make(client)
        for _ in range(2):
            await hit(lax, client)
        seen: list[str] = []
        cursor = ""
        while True:
            page = await told(client, f"/api/webhook-deliveries?limit=1{cursor}")
            seen += [item["id"] for item in page["items"]]
            if page["next_cursor"] is None:
                break
            cursor = f"&cursor={page['next_cursor']}"
        assert len(seen) == len(set(seen)) == 4
        assert seen == [item["id"] for item in (await told(client, "/api/webhook-deliveries"))["items"]]


@pytest.mark.parametrize(
    ("query", "field"),
    [("state=lost", "state"), ("webhook_id=5", "webhook_id"), ("event=!", "event"), ("url=x", "url")],
)
async def test_wrong_filters_of_deliveries(client: httpx.AsyncClient, query: str, field: str) -> None:
    """Are refused."""
    problem(await client.get(f"/api/webhook-deliveries?{query}"), 422, "invalid_request", field=field)


async def test_webhooks_of_a_stranger(rig: Rig, client: httpx.AsyncClient) -> None:
    """Are not seen, changed, rotated or deleted."""
    made = await make(client)
    path = f"/api/webhooks/{made['id']}"
    async with rig.client("other") as stranger:
        assert await told(stranger, "/api/webhooks") == {"items": []}
        assert (await told(stranger, "/api/webhook-deliveries"))["items"] == []
        for answer in (
            await stranger.get(path),
            await stranger.patch(path, json={"enabled": False}),
            await stranger.post(f"{path}/rotate-secret"),
            await stranger.delete(path),
        ):
            problem(answer, 404, "not_found")
    assert (await told(client, path))["enabled"] is True


# Callbacks ------------------------------------------------------------------------------------------------------------


async def test_a_task_tells_its_end(lax: Rig, receiver: Receiver) -> None:
    """To its callback_url, signed with the secret of the tenant's callbacks, as a text, an image, a line of a batch."""
    url = f"{receiver.url}?key=1"
    async with lax.client() as client:
        first = (await client.post("/api/callbacks/rotate-secret")).json()
        assert first["previous_until"] is None
        task_id = await submit(client, callback_url=url)
        assert (await told(client, f"/api/tasks/{task_id}"))["callback_url"] == url
        image = {"mac": MAC, "image": base64.b64encode(png()).decode(), "callback_url": url}
        assert (await client.post("/api/ocr/image", json=image)).status_code == 202
        form = await client.post(
            "/api/ocr/image", data={"mac": MAC, "callback_url": url}, files={"image": ("a.png", png())}
        )
        assert form.status_code == 202, form.text
        line = b'{"kind":"text","mac":"%s","text":"a","callback_url":"%s"}' % (MAC.encode(), url.encode())
        assert (await client.post("/api/tasks/batch", content=line, headers=NDJSON)).json()["accepted"] == 1
        assert [row["callback_url"] for row in await lax.rows()] == [url] * 4
        for started in await lax.begin(room=9):
            await lax.finish(started)
        await relay(lax)
        assert len(receiver.received) == 2
        request = next(each for each in receiver.received if each.message_id == task_id)
        assert request.is_signed_by(first["secret"], now=utc_now().timestamp())
        assert request.document["type"] == "task.succeeded"
        assert request.document["data"]["task_id"] == task_id
        [delivery] = (await told(client, f"/api/webhook-deliveries?task_id={task_id}"))["items"]
        assert (delivery["url"], delivery["webhook_id"], delivery["event"]) == (url, None, "task.succeeded")


@pytest.mark.parametrize(
    "url", ["http://hooks.example.com/", "https://127.0.0.1/", "file:///etc/passwd", "", "x" * 2001, 5]
)
async def test_a_wrong_callback_is_refused(client: httpx.AsyncClient, url: object) -> None:
    """As that of a webhook is."""
    answer = await client.post("/api/ocr/text", json={"mac": MAC, "text": "a", "callback_url": url})
    problem(answer, 422, "invalid_request", field="callback_url")


async def test_a_callback_belongs_to_the_request(client: httpx.AsyncClient) -> None:
    """The same Idempotency-Key with another callback is another request."""
    body = {"mac": MAC, "text": "a", "callback_url": PUBLIC}
    headers = {"Idempotency-Key": "k1"}
    assert (await client.post("/api/ocr/text", json=body, headers=headers)).status_code == 202
    assert (await client.post("/api/ocr/text", json=body, headers=headers)).json()["replayed"] is True
    other = await client.post("/api/ocr/text", json={**body, "callback_url": f"{PUBLIC}/2"}, headers=headers)
    problem(other, 409, "idempotency_mismatch")


async def test_whose_request_it_was(rig: Rig, client: httpx.AsyncClient) -> None:
    """Stands in the entry that follows a hit."""
    answer = await client.post(
        "/api/ocr/text", json={"mac": MAC, "text": "a"}, headers={"X-Request-Id": "from-a-device"}
    )
    assert answer.status_code == 202
    [started] = await rig.begin()
    await rig.finish(started, detection=found(1))
    async with rig.ledger.connection() as connection:
        assert await connection.fetchval("SELECT request_id FROM audit_log") == "from-a-device"
