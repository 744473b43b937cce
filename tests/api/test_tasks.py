"""Reading, finding and cancelling tasks."""

from __future__ import annotations

import base64
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from detectsched.attempt import EngineRead
from detectsched.db.results import save_reads
from detectsched.db.word_lists import publish
from detectsched.detection import Box, Detection, EngineResult, Hit, Line, ListVersion
from detectsched.queueing.queue import Renewed
from detectsched.task import TaskError, TaskState
from detectsched.wordlist import Word
from tests.api.rig import MAC, Rig, png, problem
from tests.api.test_submit import text
from tests.support.actors import mac_number


async def submit(client: httpx.AsyncClient, **fields: Any) -> str:
    """Submit a text and return its task's id."""
    answer = await client.post("/api/ocr/text", json=text(**fields))
    assert answer.status_code == 202, answer.text
    return str(answer.json()["task_id"])


async def test_a_task_shows_how_far_it_has_come(rig: Rig, client: httpx.AsyncClient) -> None:
    """Queued, running, succeeded: with what was read, what was found, where, and by which list."""
    await publish(rig.ledger, "acme", "words", [Word("two", "c", 2)], name="W", is_default=True, by="test")
    image = {"mac": MAC, "image": base64.b64encode(png()).decode(), "file_name": "shot.png"}
    task_id = (await client.post("/api/ocr/image", json=image)).json()["task_id"]
    waiting = (await client.get(f"/api/tasks/{task_id}")).json()
    assert waiting["id"] == task_id
    assert (waiting["kind"], waiting["state"], waiting["lane"]) == ("image", "queued", "ocr")
    assert (waiting["mac"], waiting["object"]) == ("aa:bb:cc:dd:ee:01", None)
    assert waiting["started_at"] is waiting["finished_at"] is waiting["error"] is None
    assert waiting["reading"] is waiting["detection"] is None
    assert (waiting["media_type"], waiting["file_name"], waiting["word_lists"]) == ("image/png", "shot.png", ["words"])
    [started] = await rig.begin("ocr")
    running = (await client.get(f"/api/tasks/{task_id}")).json()
    assert running["state"] == "running"
    assert running["started_at"] is not None
    version = ListVersion("words", 1)
    read = EngineResult("fake", "1", (Line("one two", Box(1, 2, 3, 4), 0.9),), 64, 32, 0.5)
    await save_reads(rig.ledger, [EngineRead(UUID(task_id), "acme", started.fence, read)])
    hit = Hit("two", "c", 2, 4, 7, "two", version, Box(1, 2, 3, 4), tags=("t",), replacement="-")
    inner = Hit("digits", "d", 1, 4, 5, "t", version, rule="digits")
    await rig.finish(started, detection=Detection((hit, inner), (version,), cut=True))
    done = (await client.get(f"/api/tasks/{task_id}")).json()
    assert done["state"] == "succeeded"
    assert done["finished_at"] is not None
    assert (done["hit_count"], done["top_level"], done["hits_cut"]) == (2, 2, True)
    assert done["judged_by"] == [{"id": "words", "version": 1}]
    assert [(one["word"], one["rule"], one["covered"]) for one in done["hits"]] == [
        ("two", None, False),
        ("digits", "digits", True),
    ]
    assert done["hits"][:1] == [
        {
            "word": "two",
            "matched": "two",
            "category": "c",
            "level": 2,
            "start": 4,
            "end": 7,
            "list": {"id": "words", "version": 1},
            "box": {"left": 1, "top": 2, "right": 3, "bottom": 4},
            "rule": None,
            "tags": ["t"],
            "replacement": "-",
            "covered": False,
        }
    ]
    assert running["reading"]["state"] == running["detection"]["state"] == "processing"
    assert done["detection"].pop("finished_at") >= done["detection"].pop("started_at")
    assert done["detection"] == {"state": "success", "error": None}
    assert done["reading"].pop("finished_at") >= done["reading"].pop("started_at")
    assert done["reading"] == {
        "state": "success",
        "error": None,
        "engine": "fake",
        "version": "1",
        "text": "one two",
        "lines": [{"text": "one two", "box": {"left": 1, "top": 2, "right": 3, "bottom": 4}, "score": 0.9}],
        "width": 64,
        "height": 32,
        "seconds": 0.5,
    }


async def test_a_failed_task_says_why(rig: Rig, client: httpx.AsyncClient) -> None:
    """A stable word and a sentence."""
    task_id = await submit(client)
    [started] = await rig.begin()
    await rig.finish(started, TaskState.FAILED, error=TaskError("undecodable_image", "it is cut short"))
    shown = (await client.get(f"/api/tasks/{task_id}")).json()
    assert (shown["state"], shown["error"]) == (
        "failed",
        {"reason": "undecodable_image", "detail": "it is cut short"},
    )


async def test_lists_are_filtered_on_the_server(rig: Rig, client: httpx.AsyncClient) -> None:
    """By state, lane, device in any spelling, object in any spelling, hits, and several at once."""
    one = await submit(client, mac=mac_number(1))
    two = await submit(client, mac=mac_number(2), lane="ocr")
    door = await submit(client, mac=None, object="Front  Door")
    first, *_ = await rig.begin(room=1)
    assert str(first.delivery.task_id) == one
    version = ListVersion("words", 1)
    await publish(rig.ledger, "acme", "words", [Word("x")], name="W", is_default=True, by="test")
    await rig.finish(first, detection=Detection((Hit("x", "c", 1, 0, 1, "x", version),), (version,)))

    async def ids(query: str) -> list[str]:
        answer = await client.get(f"/api/tasks?{query}")
        assert answer.status_code == 200, answer.text
        assert answer.json()["next_cursor"] is None
        return [item["id"] for item in answer.json()["items"]]

    assert await ids("") == [door, two, one]
    assert await ids("state=queued") == [door, two]
    assert await ids("lane=ocr") == [two]
    assert await ids(f"mac={mac_number(2).replace(':', '-').upper()}") == [two]
    assert await ids("object=FRONT%20door") == [door]
    assert await ids("has_hits=true") == [one]
    assert await ids("has_hits=false") == [door, two]
    assert await ids("state=succeeded&has_hits=true&lane=text") == [one]
    assert await ids("state=dead") == []


async def test_pages_follow_each_other_without_gap_or_repeat(rig: Rig, client: httpx.AsyncClient) -> None:
    """Also while new tasks come in: a page goes on where the one before ended."""
    before = [await submit(client) for _ in range(7)]
    seen: list[str] = []
    cursor = ""
    while True:
        page = (await client.get(f"/api/tasks?limit=3&cursor={cursor}" if cursor else "/api/tasks?limit=3")).json()
        seen += [item["id"] for item in page["items"]]
        await submit(client)
        if page["next_cursor"] is None:
            break
        cursor = page["next_cursor"]
    assert seen == before[::-1]


async def test_a_wrong_filter_is_refused(client: httpx.AsyncClient, subtests: pytest.Subtests) -> None:
    """A misspelt or impossible filter lists nothing, rather than everything."""
    wrong = {
        "stat=failed": "stat",
        "state=finished": "state",
        "lane=gpu": "lane",
        "mac=xyz": "mac",
        "object=%00": "object",
        "has_hits=perhaps": "has_hits",
        "limit=0": "limit",
        "limit=501": "limit",
        "cursor=abc": "cursor",
        "cursor=%ff%ff": "cursor",
        "cursor=": "cursor",
        "cursor=AAAAAAAAAAAAAAAAAAAAAAA": "cursor",
    }
    for query, field in wrong.items():
        with subtests.test(query):
            problem(await client.get(f"/api/tasks?{query}"), 422, "invalid_request", field=field)


async def test_cancelling_a_waiting_task_ends_it_at_once(rig: Rig, client: httpx.AsyncClient) -> None:
    """200; it is out of the queues, and no runner gets it; a second time is a conflict."""
    task_id, other = await submit(client), await submit(client)
    answer = await client.delete(f"/api/tasks/{task_id}")
    assert (answer.status_code, answer.json()) == (
        200,
        {"task_id": task_id, "state": "cancelled", "cancel_requested": True},
    )
    assert await rig.pending() == 1
    [started] = await rig.begin(room=5)
    assert str(started.delivery.task_id) == other
    assert "cancelled" in problem(await client.delete(f"/api/tasks/{task_id}"), 409, "conflict")["detail"]
    problem(await client.delete(f"/api/tasks/{uuid4()}"), 404, "not_found")


async def test_cancelling_a_running_task_asks_its_runner(rig: Rig, client: httpx.AsyncClient) -> None:
    """202; its runner hears of it at the next renewal, and the state is terminal only when it has stopped."""
    task_id = await submit(client)
    [started] = await rig.begin()
    for _ in range(2):
        answer = await client.delete(f"/api/tasks/{task_id}")
        assert (answer.status_code, answer.json()["state"]) == (202, "running")
    held = (started.delivery.task_id, started.delivery.number)
    assert await rig.queue.scripts.renew(rig.runner, [held], lease_seconds=60) == [Renewed.CANCEL]
    assert (await client.get(f"/api/tasks/{task_id}")).json()["cancel_requested"] is True
    await rig.finish(started, TaskState.CANCELLED)
    problem(await client.delete(f"/api/tasks/{task_id}"), 409, "conflict")


async def test_cancelling_without_redis(rig: Rig, client: httpx.AsyncClient) -> None:
    """A waiting task is cancelled all the same; for a running one the caller must ask again."""
    running, waiting = await submit(client), await submit(client)
    await rig.begin()
    await rig.clients.commands.flushall()
    assert (await client.delete(f"/api/tasks/{waiting}")).status_code == 200
    assert await rig.state_of(waiting) == "cancelled"
    problem(await client.delete(f"/api/tasks/{running}"), 503, "rebuilding")
    assert await rig.state_of(running) == "running"
