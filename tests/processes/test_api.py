"""The API as a process: a full disk under its blobs (F20), and an orderly stop with everything under way (F29)."""

from __future__ import annotations

import asyncio
import resource
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from detectsched.embedded.places import free_port
from detectsched.settings import ApiSettings, Settings
from tests.api.rig import MAC, Rig, bearer, png, problem, rigged
from tests.api.test_submit import text
from tests.support.processes import Daemon, daemon

GRACE_SECONDS = 10.0


@pytest.fixture
async def rig(settings: Settings) -> AsyncIterator[Rig]:
    """Give the stores of an API process, and its keys."""
    api = ApiSettings(port=free_port(), grace_seconds=GRACE_SECONDS, max_wait_seconds=60.0)
    async with rigged(settings.model_copy(update={"api": api})) as rig:
        yield rig


@asynccontextmanager
async def serving(rig: Rig) -> AsyncIterator[tuple[Daemon, httpx.AsyncClient]]:
    """Run the API; give its process and a client."""
    url = f"http://127.0.0.1:{rig.settings.api.port}"
    async with (
        daemon(rig.settings, "api") as process,
        httpx.AsyncClient(base_url=url, headers=bearer(rig.keys["acme"]), timeout=30.0) as client,
    ):
        await process.wait_for("listening")
        yield process, client


def files_below(directory: Path) -> int:
    """Return how many files there are."""
    return sum(path.is_file() for path in directory.rglob("*"))


async def test_a_full_disk_under_the_blobs_refuses_images_and_loses_none(rig: Rig) -> None:
    """503 with Retry-After, no row without its image and no half image; texts go on, and images when there is room.

    The kernel's limit on the size of files stands for the full disk: a write fails in the middle.
    """
    files = {"image": ("i.png", png(), "image/png")}
    form, blobs = {"mac": MAC}, Path(rig.settings.blobs.url.removeprefix("file:"))
    async with serving(rig) as (process, client):
        before = (await client.post("/api/ocr/image", files=files, data=form)).raise_for_status().json()["task_id"]
        _, most = resource.prlimit(process.process.pid, resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
        problem(await client.post("/api/ocr/image", files=files, data=form), 503, "unavailable")
        assert (await client.post("/api/ocr/text", json=text())).status_code == 202
        rows = [row for row in await rig.rows() if row["kind"] == "image"]
        assert [str(row["id"]) for row in rows] == [before]
        assert await asyncio.to_thread(files_below, blobs) == 1
        assert await rig.blobs.get(rows[0]["blob"]) == png()
        resource.prlimit(process.process.pid, resource.RLIMIT_FSIZE, (most, most))
        assert (await client.post("/api/ocr/image", files=files, data=form)).status_code == 202


async def test_70_sigterm_lets_an_upload_end_and_sends_long_polls_home(rig: Rig) -> None:
    """The upload in progress is accepted, the long poll answered, and the process ends with 0 within its grace."""
    asked, halfway, told = asyncio.Event(), asyncio.Event(), asyncio.Event()
    files = {"image": ("i.png", png(), "image/png")}
    whole = httpx.Request("POST", "http://api/", files=files, data={"mac": MAC})
    body = whole.read()

    async def slowly() -> AsyncIterator[bytes]:
        yield body[: len(body) // 2]
        halfway.set()
        await told.wait()
        yield body[len(body) // 2 :]

    async def note(event: str, _: object) -> None:
        if event == "http11.send_request_body.complete":
            asked.set()

    async with serving(rig) as (process, client):
        waited = (await client.post("/api/ocr/text", json=text())).raise_for_status().json()["task_id"]
        poll = asyncio.create_task(client.get(f"/api/tasks/{waited}", params={"wait": 50}, extensions={"trace": note}))
        headers = {"content-type": whole.headers["content-type"]}
        upload = asyncio.create_task(client.post("/api/ocr/image", content=slowly(), headers=headers))
        await asked.wait()
        await halfway.wait()
        # Both are in the hands of the process once it has answered somebody who came after them.
        assert (await client.get("/livez")).status_code == 200
        process.process.send_signal(signal.SIGTERM)
        await process.wait_for("stopping")
        answer = await poll
        assert (answer.status_code, answer.json()["state"]) == (200, "queued")
        assert not upload.done()
        told.set()
        accepted = await upload
        assert accepted.status_code == 202, accepted.text
        assert await process.ended(GRACE_SECONDS) == 0, process.output
    assert accepted.json()["task_id"] in {str(row["id"]) for row in await rig.rows()}
