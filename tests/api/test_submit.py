"""Submitting: what 202 means, and that it means it once."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx

from detectsched.db.word_lists import publish
from detectsched.task import TaskState
from detectsched.wordlist import Word
from tests.api.rig import MAC, Rig, png, problem
from tests.support.waiting import wait_until


def text(**fields: Any) -> dict[str, Any]:
    """Return a good text."""
    return {"mac": MAC, "text": "some words"} | fields


async def test_accepted_means_committed_and_queued(rig: Rig, client: httpx.AsyncClient) -> None:
    """After a 202 the row is in PostgreSQL and the task in Redis, and a runner gets it."""
    answer = await client.post("/api/ocr/text", json=text(ttl_seconds=60.0))
    assert answer.status_code == 202
    submitted = answer.json()
    assert answer.headers["location"] == f"/api/tasks/{submitted['task_id']}"
    assert submitted["state"] == "queued"
    assert not submitted["replayed"]
    assert await rig.pending() == 1
    assert await rig.queue.unknown([UUID(submitted["task_id"])]) == []
    [row] = await rig.rows()
    assert (row["tenant"], row["mac"], row["lane"], row["kind"], row["text"], row["cost"]) == (
        "acme",
        "aa:bb:cc:dd:ee:01",
        "text",
        "text",
        "some words",
        1.0,
    )
    assert (row["expires_at"] - row["created_at"]).total_seconds() == 60
    [started] = await rig.begin()
    assert str(started.delivery.task_id) == submitted["task_id"]


async def test_an_image_is_kept_before_it_is_queued(rig: Rig, client: httpx.AsyncClient) -> None:
    """By either content type: the blob, its hash, type and name, and a cost by its size."""
    data = png(1500, 1000)
    form = await client.post(
        "/api/ocr/image",
        files={"image": ("C:\\shots\\ab.png", data, "application/octet-stream")},
        data={"mac": MAC, "ttl_seconds": "60", "lane": ""},
    )
    assert form.status_code == 202, form.text
    inline = await client.post(
        "/api/ocr/image",
        json={"object": " The  Door ", "image": base64.b64encode(data).decode(), "file_name": "../x\u0007.png"},
    )
    assert inline.status_code == 202, inline.text
    first, second = await rig.rows()
    for row in (first, second):
        assert await rig.blobs.get(row["blob"]) == data
        assert row["blob"].startswith("acme/")
        assert row["blob"].endswith(str(row["id"]))
        assert row["blob_sha256"] == hashlib.sha256(data).digest()
        assert (row["kind"], row["lane"], row["media_type"], row["cost"]) == ("image", "ocr", "image/png", 1.5)
    assert (first["mac"], first["file_name"], first["queue"]) == (
        "aa:bb:cc:dd:ee:01",
        "ab.png",
        "mac:acme:ocr:aa:bb:cc:dd:ee:01",
    )
    assert (second["object"], second["file_name"], second["queue"]) == ("the door", "x.png", "object:acme:the door")
    assert await rig.pending() == 2


async def test_word_lists_are_fixed_when_a_task_is_accepted(rig: Rig, client: httpx.AsyncClient) -> None:
    """Named lists are kept once each, none named means the defaults, an unknown one is refused."""
    for list_id, is_default in (("one", True), ("two", False)):
        await publish(rig.ledger, "acme", list_id, [Word("w")], name=list_id, is_default=is_default, by="test")
    await client.post("/api/ocr/text", json=text())
    await client.post("/api/ocr/text", json=text(word_lists=["two", "one", "two"]))
    files = {"image": ("i.png", png(), "image/png")}
    await client.post("/api/ocr/image", files=files, data={"mac": MAC, "word_lists": ["two", "one"]})
    await client.post("/api/ocr/image", files=files, data={"mac": MAC, "word_lists": "one, two"})
    assert [row["word_lists"] for row in await rig.rows()] == [["one"], ["two", "one"], ["two", "one"], ["one", "two"]]
    refused = await client.post("/api/ocr/text", json=text(word_lists=["one", "three"]))
    assert "three" in problem(refused, 422, "invalid_request", field="word_lists")["detail"]
    async with rig.client("other") as stranger:
        problem(await stranger.post("/api/ocr/text", json=text(word_lists=["one"])), 422, "invalid_request")
    assert await rig.pending() == 4


async def test_a_repeat_yields_the_same_task_in_whatever_state(rig: Rig, client: httpx.AsyncClient) -> None:
    """202 while the task is open, 200 with its state afterwards; one row, one place in the queues."""
    headers = {"Idempotency-Key": "k-1"}
    first = await client.post("/api/ocr/text", json=text(), headers=headers)
    assert "idempotency-replayed" not in first.headers
    task_id = first.json()["task_id"]
    again = await client.post("/api/ocr/text", json=text(mac="aabb.ccdd.ee01"), headers=headers)
    [started] = await rig.begin()
    running = await client.post("/api/ocr/text", json=text(), headers=headers)
    await rig.finish(started, TaskState.FAILED)
    ended = await client.post("/api/ocr/text", json=text(), headers=headers)
    answers = [(a.status_code, a.json()["task_id"], a.json()["state"]) for a in (again, running, ended)]
    assert answers == [(202, task_id, "queued"), (202, task_id, "running"), (200, task_id, "failed")]
    assert all(a.headers["idempotency-replayed"] == "true" and a.json()["replayed"] for a in (again, running, ended))
    assert len(await rig.rows()) == 1
    assert await rig.pending() == 0


async def test_a_key_belongs_to_one_request(rig: Rig, client: httpx.AsyncClient) -> None:
    """Whatever differs in the request is a mismatch; another tenant's key of the same name is another key."""
    await publish(rig.ledger, "acme", "one", [Word("w")], name="one", is_default=False, by="test")
    headers = {"Idempotency-Key": "k-1"}
    await client.post("/api/ocr/text", json=text(), headers=headers)
    others = (
        {"text": "other words"},
        {"mac": "AA:BB:CC:DD:EE:02"},
        {"mac": None, "object": "door"},
        {"lane": "ocr"},
        {"ttl_seconds": 5},
        {"word_lists": ["one"]},
    )
    for change in others:
        answer = await client.post("/api/ocr/text", json=text(**change), headers=headers)
        problem(answer, 409, "idempotency_mismatch")
    image = {"mac": MAC, "image": base64.b64encode(png()).decode()}
    problem(await client.post("/api/ocr/image", json=image, headers=headers), 409, "idempotency_mismatch")
    async with rig.client("other") as stranger:
        assert (await stranger.post("/api/ocr/text", json=text(), headers=headers)).status_code == 202
    assert len(await rig.rows()) == 2


async def test_fifty_at_once_with_one_key_are_one_task(rig: Rig, client: httpx.AsyncClient) -> None:
    """One row, one place, one image in the store, one task id for all."""
    image = {"mac": MAC, "image": base64.b64encode(png()).decode()}
    for path, body in (("/api/ocr/text", text()), ("/api/ocr/image", image)):
        headers = {"Idempotency-Key": path}
        answers = await asyncio.gather(*(client.post(path, json=body, headers=headers) for _ in range(50)))
        assert {answer.status_code for answer in answers} == {202}
        assert len({answer.json()["task_id"] for answer in answers}) == 1
        assert sum(not answer.json()["replayed"] for answer in answers) == 1
    first, second = await rig.rows()
    assert await rig.pending() == 2
    directory = rig.settings.blobs.url.removeprefix("file:")
    assert await asyncio.to_thread(_files, directory) == [f"{directory}/{second['blob']}"]
    assert first["blob"] is None


async def test_concurrent_requests_share_inserts(rig: Rig, client: httpx.AsyncClient) -> None:
    """What comes while one insert is under way goes down with the next; each request gets its own task."""

    async def post(number: int) -> httpx.Response:
        return await client.post("/api/ocr/text", json=text(text=f"t {number}"))

    async with rig.ledger.transaction() as connection:
        await connection.execute("LOCK TABLE task IN SHARE MODE")
        posts = [asyncio.create_task(post(number)) for number in range(100)]
        waiting = rig.context.accept_path._rows._waiting
        await wait_until(lambda: len(waiting) >= 50, "half of them wait for the first insert")
    answers = await asyncio.gather(*posts)
    assert {answer.status_code for answer in answers} == {202}
    texts = {str(row["id"]): row["text"] for row in await rig.rows()}
    assert [texts[answer.json()["task_id"]] for answer in answers] == [f"t {number}" for number in range(100)]
    assert await rig.pending() == 100
    figures = (await client.get("/metrics")).text
    [inserts] = [line for line in figures.splitlines() if line.startswith("detectsched_accept_group_size_count")]
    assert float(inserts.split()[1]) <= 52


async def test_a_committed_task_that_could_not_be_queued_is_queued_by_a_retry(
    rig: Rig, client: httpx.AsyncClient
) -> None:
    """The gate closes after the commit: 503, and the same key yields the committed task, queued."""
    original = rig.queue.scripts.enqueue
    closed = False

    async def lose_redis(placements: Any) -> Any:
        nonlocal closed
        if not closed:
            closed = True
            await rig.clients.commands.flushall()
        return await original(placements)

    rig.queue.scripts.enqueue = lose_redis  # type: ignore[method-assign]
    headers = {"Idempotency-Key": "k-1"}
    first = await client.post("/api/ocr/text", json=text(), headers=headers)
    assert problem(first, 503, "rebuilding")["retry_after"] == 2
    [row] = await rig.rows()
    problem(await client.post("/api/ocr/text", json=text(), headers=headers), 503, "rebuilding")
    await rig.open_gate()
    retry = await client.post("/api/ocr/text", json=text(), headers=headers)
    assert (retry.status_code, retry.json()["task_id"]) == (202, str(row["id"]))
    assert await rig.pending() == 1


async def test_nothing_is_committed_while_the_gate_is_closed(rig: Rig, client: httpx.AsyncClient) -> None:
    """A request that meets a closed gate leaves no row and no image."""
    await rig.clients.commands.flushall()
    problem(await client.post("/api/ocr/text", json=text()), 503, "rebuilding")
    files = {"image": ("i.png", png(), "image/png")}
    problem(await client.post("/api/ocr/image", files=files, data={"mac": MAC}), 503, "rebuilding")
    assert await rig.rows() == []
    assert await asyncio.to_thread(_files, rig.settings.blobs.url.removeprefix("file:")) == []


def _files(directory: str) -> list[str]:
    return sorted(str(path) for path in Path(directory).rglob("*") if path.is_file())
