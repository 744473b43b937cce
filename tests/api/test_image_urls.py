"""Images by URL: off unless the operator wants them; fetched where strangers may lead us, and nowhere else."""

from __future__ import annotations

import hashlib
import ipaddress
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from detectsched.api.context import ApiContext
from detectsched.api.image_urls import ImageUrls
from detectsched.net.fetch import Fetcher
from detectsched.net.guard import Guard
from tests.api.rig import MAC, Rig, png, problem
from tests.net.test_guard import OK, Server, serving

IMAGE = png(1500, 1000)
GOOD = OK + b"Content-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(IMAGE) + IMAGE


def by_url(url: str, **fields: Any) -> dict[str, Any]:
    """Return a good submission."""
    return {"mac": MAC, "image_url": url} | fields


@pytest.fixture
def allowing(rig: Rig) -> Rig:
    """Give a rig whose server takes images by URL."""
    settings = rig.settings.model_copy(update={"api": rig.settings.api.model_copy(update={"image_url": True})})
    context = ApiContext.make(rig.queue, rig.ledger, rig.blobs, settings)
    return replace(rig, settings=settings, context=context)


@pytest.fixture
async def client(allowing: Rig) -> AsyncIterator[httpx.AsyncClient]:
    """Call that server."""
    async with allowing.client() as client:
        yield client


def let_through(rig: Rig, server: Server) -> str:
    """Let the test's own server pass: plain HTTP, its port, loopback; return its URL."""
    guard = Guard(frozenset({"http"}), frozenset({server.port}), (ipaddress.ip_network("127.0.0.0/8"),))
    fetcher = Fetcher(guard, most_bytes=100_000, seconds=5)
    rig.context.accept_path._image_urls = ImageUrls(rig.settings.api, rig.context.intake, fetcher)
    return f"http://127.0.0.1:{server.port}/cat.html"


async def test_they_are_not_taken_unless_the_operator_wants_them(rig: Rig) -> None:
    """A new installation fetches nothing that strangers name."""
    async with rig.client() as client:
        refused = await client.post("/api/ocr/image", json=by_url("https://example.org/a.png"))
    problem(refused, 422, "invalid_request", field="image_url")


async def test_an_image_is_fetched_before_it_is_accepted(allowing: Rig, client: httpx.AsyncClient) -> None:
    """After the 202 it is an image like any other, by its content and not by what its server calls it."""
    async with serving(Server(GOOD)) as server:
        answer = await client.post("/api/ocr/image", json=by_url(let_through(allowing, server), file_name="cat.png"))
    assert answer.status_code == 202, answer.text
    [row] = await allowing.rows()
    assert (row["blob_sha256"], row["media_type"], row["file_name"]) == (
        hashlib.sha256(IMAGE).digest(),
        "image/png",
        "cat.png",
    )
    assert row["cost"] > 1
    assert await allowing.blobs.get(row["blob"]) == IMAGE


async def test_a_repeated_request_is_known_without_being_fetched_again(
    allowing: Rig, client: httpx.AsyncClient
) -> None:
    """What stands behind a URL may have changed, or gone, by then."""
    headers = {"Idempotency-Key": "k"}
    async with serving(Server(GOOD)) as server:
        url = let_through(allowing, server)
        first = await client.post("/api/ocr/image", json=by_url(url), headers=headers)
        server.answer = b"HTTP/1.1 404 Not Found\r\n\r\n"
        again = await client.post("/api/ocr/image", json=by_url(url), headers=headers)
        other = await client.post("/api/ocr/image", json=by_url(url + "?2"), headers=headers)
        assert len(server.requests) == 1
    assert first.json()["task_id"] == again.json()["task_id"]
    problem(other, 409, "idempotency_mismatch")


@pytest.mark.parametrize(
    ("answer", "status", "code"),
    [
        (OK + b"\r\n<html>", 415, "unsupported_media"),
        (OK + b"\r\n" + IMAGE[:20], 415, "unsupported_media"),
        (OK + b"Content-Length: 100001\r\n\r\n", 413, "too_large"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\n\r\n", 422, "invalid_request"),
        (b"HTTP/1.1 500 Oops\r\n\r\n", 422, "invalid_request"),
    ],
)
async def test_what_is_no_image_there_is_the_senders_problem(
    allowing: Rig, client: httpx.AsyncClient, answer: bytes, status: int, code: str
) -> None:
    """At once, with the field; nothing is accepted."""
    async with serving(Server(answer)) as server:
        refused = await client.post("/api/ocr/image", json=by_url(let_through(allowing, server)))
    problem(refused, status, code, field="image_url")
    assert await allowing.rows() == []


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1/a.png",
        "https://localhost/a.png",
        "https://[::ffff:10.0.0.1]/a.png",
        "https://2130706433/a.png",
        "https://169.254.169.254/latest/meta-data/",
        "http://example.org/a.png",
        "file:///etc/passwd",
        "https://user:secret@example.org/a.png",
        "https://example.org:6379/",
    ],
)
async def test_where_nobody_shall_lead_us_we_do_not_go(client: httpx.AsyncClient, url: str) -> None:
    """With the guard as it is by default; no answer tells what is there."""
    refused = await client.post("/api/ocr/image", json=by_url(url))
    problem(refused, 422, "invalid_request", field="image_url")


@pytest.mark.parametrize("fields", [{}, {"image": "AAAA", "image_url": "https://example.org/a.png"}])
async def test_exactly_one_image(client: httpx.AsyncClient, fields: dict[str, str]) -> None:
    """Neither none nor two."""
    problem(await client.post("/api/ocr/image", json={"mac": MAC} | fields), 422, "invalid_request", field="image")


async def test_a_batch_takes_none(client: httpx.AsyncClient) -> None:
    """It would be as slow as the slowest servers of ten thousand."""
    line = json.dumps(by_url("https://example.org/a.png", kind="image"))
    answer = await client.post("/api/tasks/batch", content=line, headers={"Content-Type": "application/x-ndjson"})
    [outcome] = answer.json()["results"]
    assert (outcome["status"], outcome["problem"]["errors"][0]["field"]) == (422, "image_url")
