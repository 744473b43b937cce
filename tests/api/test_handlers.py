"""The original's handlers: tasks of objects, with their word lists and engines."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from uuid import UUID

import httpx
import pytest

from detectsched.db.word_lists import publish
from detectsched.wordlist import Word
from tests.api.rig import MAC, Rig, png, problem

_INVALID = (422, "invalid_request")
_UNSUPPORTED = (415, "unsupported_media")
PDF = b"%PDF-1.4 only its first bytes are looked at here"


async def test_both_kinds_of_an_object_share_one_queue(rig: Rig, client: httpx.AsyncClient) -> None:
    """Whatever the spelling; the first is started, and the second only after it."""
    first = await client.post("/text/handler", json={"object": "Front  Door", "text": "words"})
    second = await client.post(
        "/calculate/handler", files={"payload": ("a.png", png())}, data={"object": " front door "}
    )
    third = await client.post("/text/handler", json={"object": "ＦＲＯＮＴ door", "text": "more"})
    assert [answer.status_code for answer in (first, second, third)] == [202] * 3
    rows = await rig.rows()
    assert {row["queue"] for row in rows} == {"object:acme:front door"}
    assert [(row["kind"], row["lane"], row["engine"]) for row in rows] == [
        ("text", "text", None),
        ("calculate", "ocr", "ocr"),
        ("text", "text", None),
    ]
    shown = (await client.get(first.headers["location"])).json()
    assert (shown["object"], shown["object_name"]) == ("front door", "Front  Door")
    [started] = await rig.begin("text", room=5)
    assert str(started.delivery.task_id) == first.json()["task_id"]
    assert await rig.begin("ocr", room=5) == []
    await rig.finish(started)
    [started] = await rig.begin("ocr", room=5)
    assert str(started.delivery.task_id) == second.json()["task_id"]


async def test_a_payload_is_kept_for_its_engine(rig: Rig, client: httpx.AsyncClient) -> None:
    """As a form or in JSON: the blob, its hash, its type and its engine."""
    await publish(rig.ledger, "acme", "words", [Word("x")], name="words", is_default=False, by="test")
    form = await client.post(
        "/calculate/handler",
        files={"payload": ("a.pdf", PDF)},
        data={"object": "o", "engine": "pdf", "word_lists": "words"},
    )
    inline = await client.post(
        "/calculate/handler",
        json={"object": "o", "engine": "pdf", "payload": base64.b64encode(PDF).decode(), "file_name": "b.pdf"},
    )
    assert (form.status_code, inline.status_code) == (202, 202), form.text
    for row in await rig.rows():
        assert (row["engine"], row["media_type"], row["blob_sha256"]) == (
            "pdf",
            "application/pdf",
            hashlib.sha256(PDF).digest(),
        )
        assert await rig.blobs.get(row["blob"]) == PDF
        assert row["file_name"] in {"a.pdf", "b.pdf"}


async def test_the_largest_payload_and_the_longest_text_are_taken(rig: Rig, client: httpx.AsyncClient) -> None:
    """As those of devices, in every form in which they may come."""
    limits = rig.settings.api
    data = PDF + bytes(limits.max_image_bytes - len(PDF))
    fields = {"object": "o", "engine": "pdf"}
    answers = [
        await client.post("/calculate/handler", files={"payload": ("a.pdf", data)}, data=fields),
        await client.post("/calculate/handler", json=fields | {"payload": base64.b64encode(data).decode()}),
        await client.post("/text/handler", json={"object": "o", "text": "\x01" * limits.max_text_bytes}),
    ]
    assert [answer.status_code for answer in answers] == [202] * 3, answers[0].text
    longer = await client.post("/text/handler", json={"object": "o", "text": "a" * (limits.max_text_bytes + 1)})
    problem(longer, 413, "too_large", field="text")


async def test_an_objects_own_lists_judge_its_tasks(rig: Rig, client: httpx.AsyncClient) -> None:
    """Named in the request, else the object's own, else the tenant's default; fixed when the task is accepted."""
    for name, default in (("words", True), ("strict", False), ("other", False)):
        await publish(rig.ledger, "acme", name, [Word("x")], name=name, is_default=default, by="test")
    before = await client.post("/text/handler", json={"object": "Door", "text": "t"})
    changed = await client.patch("/api/objects/DOOR", json={"word_lists": ["strict"]})
    assert changed.status_code == 200, changed.text
    assert (changed.json()["object"], changed.json()["word_lists"]) == ("door", ["strict"])
    own = await client.post("/text/handler", json={"object": "door", "text": "t"})
    named = await client.post("/text/handler", json={"object": "door", "text": "t", "word_lists": ["other"]})
    await client.patch("/api/objects/door", json={"word_lists": None})
    after = await client.post("/text/handler", json={"object": "door", "text": "t"})
    chosen = [
        (await client.get(answer.headers["location"])).json()["word_lists"] for answer in (before, own, named, after)
    ]
    assert chosen == [["words"], ["strict"], ["other"], ["words"]]


async def test_lists_that_do_not_exist_cannot_be_chosen(rig: Rig, client: httpx.AsyncClient) -> None:
    """The error names the first of them; a key without admin may not choose at all."""
    answer = await client.patch("/api/objects/door", json={"word_lists": ["words", "nope"]})
    assert "nope" in problem(answer, 422, "invalid_request", field="word_lists")["detail"]
    async with rig.client("read") as reader:
        problem(await reader.patch("/api/objects/door", json={"word_lists": None}), 403, "forbidden")


async def test_an_object_shows_how_it_stands(rig: Rig, client: httpx.AsyncClient) -> None:
    """Backlog, what is in flight, and the lane that its next task waits in; one that nobody knows is not found."""
    assert (await client.get("/api/objects/door")).status_code == 404
    for _ in range(3):
        await client.post("/text/handler", json={"object": "door", "text": "t"})
    waiting = (await client.get("/api/objects/Door")).json()
    assert (waiting["backlog"], waiting["in_flight"], waiting["lane"], waiting["word_lists"]) == (3, 0, "text", None)
    await rig.begin()
    running = (await client.get("/api/objects/door")).json()
    assert (running["backlog"], running["in_flight"], running["lane"]) == (2, 1, None)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"text": "t"}, "object"),
        ({"object": "", "text": "t"}, "object"),
        ({"object": " ", "text": "t"}, "object"),
        ({"object": "a\x01b", "text": "t"}, "object"),
        ({"object": "é" * 201, "text": "t"}, "object"),
        ({"object": "o", "mac": MAC, "text": "t"}, "mac"),
        ({"object": "o", "text": ""}, "text"),
        ({"object": "o", "text": "t", "word_lists": ["none"]}, "word_lists"),
    ],
)
async def test_wrong_texts_are_refused(
    rig: Rig, client: httpx.AsyncClient, fields: dict[str, object], field: str
) -> None:
    """With the field that is wrong, and nothing stored."""
    answer = await client.post("/text/handler", json=fields)
    problem(answer, 422, "invalid_request", field=field)
    assert await rig.rows() == []


@pytest.mark.parametrize(
    ("fields", "data", "refusal", "field"),
    [
        ({"object": "o", "engine": "nope"}, png(), _INVALID, "engine"),
        ({"object": "o", "engine": "pdf"}, png(), _UNSUPPORTED, "payload"),
        ({"object": "o"}, PDF, _UNSUPPORTED, "payload"),
        ({"object": "o", "lane": "text"}, png(), _INVALID, "lane"),
        ({"engine": "ocr"}, png(), _INVALID, "object"),
        ({"object": "o", "engine": "pdf"}, b"", _UNSUPPORTED, "payload"),
    ],
)
async def test_wrong_payloads_are_refused(
    rig: Rig, client: httpx.AsyncClient, fields: dict[str, str], data: bytes, refusal: tuple[int, str], field: str
) -> None:
    """Before anything is stored; an unknown engine is answered with the known ones."""
    answer = await client.post("/calculate/handler", files={"payload": ("a", data)}, data=fields)
    problem(answer, *refusal, field=field)
    assert await rig.rows() == []


async def test_a_repeated_request_is_the_same_task(rig: Rig, client: httpx.AsyncClient) -> None:
    """Under its key, also when fifty come at once; for another engine it is another request."""
    request = {"object": "o", "engine": "ocr", "payload": base64.b64encode(png()).decode()}
    answers = await asyncio.gather(
        *(client.post("/calculate/handler", json=request, headers={"Idempotency-Key": "k"}) for _ in range(50))
    )
    assert len({UUID(answer.json()["task_id"]) for answer in answers}) == 1
    assert len(await rig.rows()) == 1
    other = await client.post(
        "/calculate/handler",
        json=request | {"engine": "pdf", "payload": base64.b64encode(PDF).decode()},
        headers={"Idempotency-Key": "k"},
    )
    assert other.status_code == 409
