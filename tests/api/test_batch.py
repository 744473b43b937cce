"""Many tasks in one request: each line has its own outcome, and the order of the lines is that of acceptance."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx
import pytest

from detectsched.settings import ApiSettings, Settings
from tests.api.rig import MAC, Rig, png, problem, rigged
from tests.support.actors import mac_number

NDJSON = {"Content-Type": "application/x-ndjson"}


def line(number: int = 1, **fields: Any) -> dict[str, Any]:
    """Return a good line."""
    return {"kind": "text", "mac": mac_number(number), "text": f"text {number}"} | fields


async def post(client: httpx.AsyncClient, lines: Sequence[dict[str, Any] | bytes]) -> httpx.Response:
    """Submit lines."""
    body = b"\n".join(item if isinstance(item, bytes) else json.dumps(item).encode() for item in lines)
    return await client.post("/api/tasks/batch", content=body, headers=NDJSON)


async def test_wrong_lines_do_not_stop_good_ones(rig: Rig, client: httpx.AsyncClient) -> None:
    """Texts, images and every kind of mistake in one batch, each told by its line's number."""
    image = base64.b64encode(png()).decode()
    answer = await post(
        client,
        [
            line(1),
            b'{"kind": "text", ',
            b"",
            {"kind": "image", "mac": MAC, "image": image, "file_name": "a.png"},
            line(3, kind="sound"),
            {"mac": MAC, "text": "no kind"},
            line(4, lane="gpu"),
            line(5, text="a\0b"),
            {"kind": "image", "mac": MAC, "image": "???"},
            {"kind": "image", "mac": MAC, "image": base64.b64encode(b"no image").decode()},
            line(6, word_lists=["nope"]),
            line(7, idempotency_key="k-7"),
            line(7, idempotency_key="k-7"),
            line(8, idempotency_key="k-7"),
            b"\xff",
            line(9),
            b"  ",
        ],
    )
    assert answer.status_code == 200
    document = answer.json()
    results = {item["line"]: item for item in document["results"]}
    statuses = {number: item["status"] for number, item in results.items()}
    assert statuses == {
        1: 202,
        2: 400,
        4: 202,
        5: 422,
        6: 422,
        7: 422,
        8: 422,
        9: 400,
        10: 415,
        11: 422,
        12: 202,
        13: 202,
        14: 409,
        15: 400,
        16: 202,
    }
    assert (document["accepted"], document["refused"]) == (5, 10)
    assert list(results) == sorted(results)
    for number, item in results.items():
        if item["status"] >= 400:
            assert item["task"] is None
            assert item["problem"]["status"] == item["status"]
            assert item["problem"]["instance"] == f"/api/tasks/batch#{number}"
        else:
            assert item["problem"] is None
    assert results[7]["problem"]["errors"][0]["field"] == "lane"
    assert "kind" in results[6]["problem"]["detail"]
    assert results[12]["task"]["task_id"] == results[13]["task"]["task_id"]
    assert [results[number]["task"]["replayed"] for number in (12, 13)] == [False, True]
    rows = await rig.rows()
    assert [row["text"] for row in rows] == ["text 1", None, "text 7", "text 9"]
    assert await rig.blobs.get(rows[1]["blob"]) == png()
    assert await rig.pending() == 4


async def test_the_order_of_the_lines_is_the_order_of_acceptance(rig: Rig, client: httpx.AsyncClient) -> None:
    """Over many inserts, with images, keys and lists in between."""
    image = base64.b64encode(png()).decode()
    lines: list[dict[str, Any]] = []
    for number in range(900):
        item = {"object": f"object {number % 7}", "idempotency_key": f"k{number}" if number % 3 else None}
        if number % 90 == 5:
            lines.append({"kind": "image", "image": image, "file_name": str(number)} | item)
        else:
            lines.append({"kind": "text", "text": str(number)} | item)
    document = (await post(client, lines)).json()
    assert document["accepted"] == 900
    rows = await rig.rows()
    assert [row["text"] or row["file_name"] for row in rows] == [str(number) for number in range(900)]
    assert [str(row["id"]) for row in rows] == [item["task"]["task_id"] for item in document["results"]]
    assert await rig.pending() == 900


async def test_a_whole_batch_may_be_sent_again(rig: Rig, client: httpx.AsyncClient) -> None:
    """With a key per line a lost answer costs nothing."""
    lines = [line(number, idempotency_key=f"k{number}") for number in range(300)]
    first = (await post(client, lines)).json()
    second = (await post(client, lines)).json()
    assert [item["task"]["task_id"] for item in first["results"]] == [
        item["task"]["task_id"] for item in second["results"]
    ]
    assert all(item["task"]["replayed"] for item in second["results"])
    assert len(await rig.rows()) == 300
    assert await rig.pending() == 300


@pytest.fixture
async def small(settings: Settings) -> AsyncIterator[Rig]:
    """Give an API with small limits."""
    limits = ApiSettings(max_per_mac_pending=10, max_total_pending=40, max_batch_lines=100, max_batch_bytes=5000)
    async with rigged(settings.model_copy(update={"api": limits})) as rig:
        yield rig


async def test_lines_are_refused_for_load_one_by_one(small: Rig) -> None:
    """A flooding device gets 429 for what is too much; the lines of others go on until everything is full."""
    async with small.client() as client:
        answer = await post(client, [line(1) for _ in range(20)] + [line(2)])
        statuses = [item["status"] for item in answer.json()["results"]]
        assert statuses == [202] * 11 + [429] * 9 + [202]
        refused = answer.json()["results"][11]["problem"]
        assert (refused["code"], refused["retry_after"]) == ("device_overloaded", 30)
        answer = await post(client, [line(number) for number in range(10, 50)])
        statuses = [item["status"] for item in answer.json()["results"]]
        assert statuses == [202] * 29 + [503] * 11
        assert answer.json()["results"][-1]["problem"]["code"] == "system_overloaded"
        assert await small.pending() == 41


async def test_a_batch_that_is_too_much(small: Rig) -> None:
    """Too many lines, too many bytes, or none at all: nothing of it is accepted."""
    async with small.client() as client:
        problem(await post(client, [b"{}"] * 101), 413, "too_large")
        problem(await post(client, [line(text="x" * 5000)]), 413, "too_large")
        problem(await post(client, [b"", b" ", b"\r"]), 422, "invalid_request")
        assert await small.rows() == []
        answer = await post(client, [b"{}"] * 100)
        assert {item["status"] for item in answer.json()["results"]} == {422}


async def test_a_closed_gate_is_told_line_by_line(rig: Rig, client: httpx.AsyncClient) -> None:
    """What is wrong for good is told as such, the rest may be sent again."""
    await rig.clients.commands.flushall()
    answer = await post(client, [line(1), b"{", line(2)])
    assert [item["status"] for item in answer.json()["results"]] == [503, 400, 503]
    assert answer.json()["results"][0]["problem"]["retry_after"] == 2
    assert await rig.rows() == []
