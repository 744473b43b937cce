"""The life of an image: through the blob store and a real OCR engine in a process of its own."""

from __future__ import annotations

import hashlib

import psutil
import pytest

from detectsched.db.accept import NewTask
from detectsched.db.transitions import cancel
from detectsched.db.word_lists import publish
from detectsched.demo.corpus import DEMO_WORDS, Exhibit, images
from detectsched.settings import Settings
from detectsched.task import DEFAULT_TENANT, QueueId, TaskKind, TaskState, new_task_id
from tests.support.actors import mac_number
from tests.support.system import System, dispatching, runner

pytestmark = pytest.mark.ocr


async def submit(system: System, exhibit: Exhibit, device: int = 1, *, data: bytes | None = None) -> NewTask:
    """Store an image and submit it."""
    content = exhibit.data if data is None else data
    mac, task_id = mac_number(device), new_task_id()
    await system.blobs.put(f"default/{task_id}", content)
    task = NewTask(
        id=task_id,
        tenant=DEFAULT_TENANT,
        kind=TaskKind.IMAGE,
        lane="ocr",
        queue=QueueId.of_device(DEFAULT_TENANT, "ocr", mac),
        cost=2.0,
        ttl_seconds=3600,
        mac=mac,
        blob=f"default/{task_id}",
        blob_sha256=hashlib.sha256(content).digest(),
        media_type=exhibit.media_type,
    )
    await system.submit(task)
    return task


async def test_planted_words_are_found_where_they_stand(settings: Settings) -> None:
    """Every planted word of a screenshot is a hit, with its offsets in the text and its box in the image."""
    exhibit = next(exhibit for exhibit in images() if exhibit.planted)
    async with dispatching(settings) as system:
        await publish(system.ledger, DEFAULT_TENANT, "demo", DEMO_WORDS, name="Demo", is_default=True, by="test")
        task = await submit(system, exhibit)
        async with runner(settings, "ocr", "text"):
            view = await system.wait_for(task.id, TaskState.SUCCEEDED, 60)
    assert view.engine is not None
    assert sorted(hit.word for hit in view.hits) == sorted(exhibit.planted)
    for hit in view.hits:
        assert view.engine.text is not None
        assert view.engine.text[hit.start_offset : hit.end_offset] == hit.matched
        left, top, right, bottom = hit.box
        assert 0 <= left < right <= view.engine.width
        assert 0 <= top < bottom <= view.engine.height


async def test_a_truncated_image_fails_for_good(settings: Settings) -> None:
    """Damage that only decoding shows ends the task as failed with that reason, at the first try."""
    exhibit = images()[0]
    async with dispatching(settings) as system:
        task = await submit(system, exhibit, data=exhibit.data[: len(exhibit.data) // 2])
        async with runner(settings, "ocr"):
            view = await system.wait_for(task.id, TaskState.FAILED, 60)
    assert (view.task.error_reason, view.task.fence) == ("undecodable_image", 1)


async def test_cancelling_a_running_image_kills_its_engine(settings: Settings) -> None:
    """A running task is asked to stop; its engine process is killed, and only then is it cancelled."""
    exhibit = max(images(), key=lambda exhibit: len(exhibit.data))
    async with dispatching(settings) as system, runner(settings, "ocr"):
        engines = {child.pid for child in psutil.Process().children(recursive=True) if "ocr.child" in _words(child)}
        assert engines
        task = await submit(system, exhibit)
        await system.wait_for(task.id, TaskState.RUNNING)
        assert await cancel(system.ledger, DEFAULT_TENANT, task.id) is TaskState.RUNNING
        await system.queue.scripts.withdraw([task.id])
        await system.wait_for(task.id, TaskState.CANCELLED)
        assert not any(psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie" for pid in engines)
        other = await submit(system, exhibit, data=exhibit.data)
        await system.wait_for(other.id, TaskState.SUCCEEDED, 60)


def _words(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
