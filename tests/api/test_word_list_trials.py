"""The test box: what lists and drafts find, without anything following from it."""

from __future__ import annotations

import asyncio
from uuid import UUID

import httpx

from detectsched.attempt import EngineRead
from detectsched.db.results import save_reads
from detectsched.detection import Box, EngineResult, Line
from detectsched.task import TaskError, TaskState
from tests.api.rig import MAC, Rig, png, problem
from tests.api.test_word_list_drafts import DRAFT, MINE, good
from tests.api.test_word_lists import words

TEST = "/api/word-lists/test"
READ = EngineResult(
    "fake", "1", (Line("a secret", Box(1, 2, 3, 4), 0.9), Line("plan", Box(5, 6, 7, 8), 0.8)), 9, 9, 0.1
)


async def read(rig: Rig, *, fails: bool = False) -> None:
    """Read the image that waits, as a runner would."""
    started = await rig.begin("ocr")
    while not started:
        started = await rig.begin("ocr")
    [one] = started
    assert one.lists == ()
    if fails:
        await rig.finish(one, TaskState.FAILED, error=TaskError("undecodable_image", "cut short"))
        return
    assert await save_reads(rig.ledger, [EngineRead(one.delivery.task_id, one.tenant, one.fence, READ, one.seal)])
    await rig.finish(one)


async def test_a_text_is_tried_on_default_lists(rig: Rig, client: httpx.AsyncClient) -> None:
    """On those of the tenant; hits as tasks have them, those in shadow mode apart; and nothing is kept."""
    await client.put(MINE, json=words("secret", "secret plan"))
    await client.put("/api/word-lists/trial", json=words("plan", options={"shadow": True}))
    await client.put("/api/word-lists/special", json=words("a", is_default=False))
    tried = await good(await client.post(TEST, json={"text": "a secret plan"}))
    assert (tried["task_id"], tried["state"], tried["top_level"], tried["hits_cut"]) == (None, None, 1, False)
    found = [(hit["word"], hit["start"], hit["end"], hit["covered"], hit["list"]) for hit in tried["hits"]]
    mine = {"id": "mine", "version": 1}
    assert found == [("secret", 2, 8, True, mine), ("secret plan", 2, 13, False, mine)]
    assert [hit["word"] for hit in tried["shadow_hits"]] == ["plan"]
    assert tried["judged_by"] == [mine, {"id": "trial", "version": 1}]
    named = await good(await client.post(TEST, json={"text": "a secret", "word_lists": ["special"]}))
    assert [hit["word"] for hit in named["hits"]] == ["a"]
    async with rig.client("other") as stranger:
        assert (await good(await stranger.post(TEST, json={"text": "a secret plan"})))["judged_by"] == []
    assert await rig.rows() == []


async def test_a_draft_is_tried_before_it_is_published(client: httpx.AsyncClient) -> None:
    """Alone, or beside published lists, its own current version included."""
    await client.put(MINE, json=words("old"))
    rule = {"kind": "regex", "name": "pay", "pattern": "pay.?pal", "level": 4}
    await client.put(DRAFT, json=words("new", options={"rules": [rule]}))
    alone = await good(await client.post(TEST, json={"text": "old new pay-pal", "draft": "mine"}))
    assert [(hit["word"], hit["list"]["version"]) for hit in alone["hits"]] == [("new", 0), ("pay", 0)]
    both = await good(await client.post(TEST, json={"text": "old new", "draft": "mine", "word_lists": ["mine"]}))
    assert [(hit["word"], hit["list"]["version"]) for hit in both["hits"]] == [("old", 1), ("new", 0)]


async def test_an_image_is_read_by_a_runner(rig: Rig, client: httpx.AsyncClient) -> None:
    """As a task that is judged by no list; its reading can be tried again, on others, and shows boxes."""
    await client.put(MINE, json=words("secret"))
    await client.put(DRAFT, json=words("secret plan", options={"across_lines": True}))
    files = {"image": ("a.png", png(), "image/png")}
    asking = asyncio.create_task(client.post(TEST, files=files, data={"word_lists": "mine"}))
    await read(rig)
    tried = await good(await asking)
    assert (tried["state"], tried["text"]) == ("succeeded", "a secret\nplan")
    assert [(hit["word"], hit["box"]["left"]) for hit in tried["hits"]] == [("secret", 1)]
    [row] = await rig.rows()
    assert (row["object"], row["word_lists"]) == ("word list test", [])
    task = (await client.get(f"/api/tasks/{tried['task_id']}")).json()
    assert (task["hits"], task["judged_by"], task["hit_count"]) == ([], [], 0)
    again = await good(await client.post(TEST, json={"task_id": tried["task_id"], "draft": "mine"}))
    [hit] = again["hits"]
    assert (hit["word"], hit["matched"], hit["box"]) == (
        "secret plan",
        "secret\nplan",
        {"left": 1, "top": 2, "right": 7, "bottom": 8},
    )


async def test_an_image_that_waits_is_asked_for_again(rig: Rig, client: httpx.AsyncClient) -> None:
    """By its task; one that cannot be read says so."""
    files = {"image": ("a.png", png(), "image/png")}
    pending = await client.post(TEST, files=files, params={"wait": 0})
    assert pending.status_code == 202, pending.text
    task_id = pending.json()["task_id"]
    assert (pending.json()["state"], pending.json()["hits"]) == ("queued", [])
    await read(rig, fails=True)
    refused = problem(await client.post(TEST, json={"task_id": task_id}), 409, "conflict", field="task_id")
    assert "cut short" in refused["detail"]
    async with rig.client("other") as stranger:
        problem(await stranger.post(TEST, json={"task_id": task_id}), 404, "not_found")


async def test_a_task_of_text_can_be_tried(client: httpx.AsyncClient) -> None:
    """Its text, whatever became of it."""
    task = (await client.post("/api/ocr/text", json={"mac": MAC, "text": "a secret"})).json()
    await client.put(DRAFT, json=words("secret"))
    body = {"task_id": str(UUID(task["task_id"])), "draft": "mine"}
    tried = await good(await client.post(f"{TEST}?wait=0", json=body))
    assert [hit["word"] for hit in tried["hits"]] == ["secret"]


async def test_what_cannot_be_tried(client: httpx.AsyncClient) -> None:
    """Is told, by its field."""
    await client.put(DRAFT, json=words("a"))
    for body, field in (
        ({}, ""),
        ({"text": "a", "task_id": "01a22be1-b969-74b6-b53e-e16aa333c191"}, ""),
        ({"text": ""}, "text"),
        ({"text": "a", "word_lists": ["mine"]}, "word_lists"),
        ({"text": "a", "word_lists": []}, "word_lists"),
        ({"text": "a", "lists": ["mine"]}, "lists"),
    ):
        problem(await client.post(TEST, json=body), 422, "invalid_request", field=field)
    problem(await client.post(TEST, json={"text": "a", "draft": "none"}), 404, "not_found")
    problem(await client.post(TEST, json={"text": "a" * 1_048_577}), 413, "too_large")
    problem(await client.post(TEST, files={"image": ("a.png", b"GIF", "image/png")}), 415, "unsupported_media")
    problem(await client.post(TEST, data={"draft": "mine"}), 415, "unsupported_media")
