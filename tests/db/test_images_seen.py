"""What is remembered of images by their content."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from uuid import UUID

import pytest

from detectsched.attempt import Ending, EngineRead, Started
from detectsched.db.accept import accept
from detectsched.db.connection import Ledger
from detectsched.db.images_seen import MARK_DAYS, MOST_MARKS, Seen, note_crash, recall
from detectsched.db.results import end, save_reads
from detectsched.db.starts import start
from detectsched.detection import Box, Detection, EngineResult, Line
from detectsched.task import DEFAULT_TENANT, Delivery, TaskKind, TaskState, new_task_id
from tests.support.actors import new_text

IMAGE = hashlib.sha256(b"image").digest()
READ = EngineResult("rapidocr", "1", (Line("words", Box(1, 2, 3, 4), 0.9),), 100, 50, 0.1)


async def read_one(
    ledger: Ledger, sha256: bytes = IMAGE, result: EngineResult = READ, state: TaskState = TaskState.SUCCEEDED
) -> UUID:
    """Accept an image, read it, end it."""
    wanted = replace(
        new_text(1), kind=TaskKind.IMAGE, lane="ocr", text=None, blob="a/blob", blob_sha256=sha256, engine="ocr"
    )
    [accepted] = await accept(ledger, [wanted])
    [started] = await start(ledger, [Delivery(accepted.task.id, 1, "ocr", "1-1")], runner="r1")
    assert isinstance(started, Started)
    read = EngineRead(accepted.task.id, DEFAULT_TENANT, started.fence, result)
    assert await save_reads(ledger, [read]) == [True]
    found = Detection() if state is TaskState.SUCCEEDED else None
    assert await end(ledger, [Ending(accepted.task.id, DEFAULT_TENANT, started.fence, state, detection=found)]) == [
        True
    ]
    return accepted.task.id


async def seen(
    ledger: Ledger,
    *,
    tenant: str = DEFAULT_TENANT,
    sha256: bytes = IMAGE,
    engine: str = "rapidocr",
    version: str = "1",
    reuse_seconds: float = 60,
    task_id: UUID | None = None,
) -> Seen:
    """Ask on behalf of some task."""
    task_id = task_id or await read_one(ledger, b"another image")
    return await recall(ledger, task_id, tenant, sha256, engine=engine, version=version, reuse_seconds=reuse_seconds)


async def crash(ledger: Ledger, sha256: bytes = IMAGE, version: str = "1", tenant: str = DEFAULT_TENANT) -> int:
    """Note a crash."""
    return await note_crash(
        ledger, new_task_id(), tenant, sha256, engine="rapidocr", version=version, reason="engine_crashed"
    )


async def age(ledger: Ledger, table: str, column: str, interval: str) -> None:
    """Make rows older."""
    async with ledger.connection() as connection:
        await connection.execute(f"UPDATE {table} SET {column} = {column} - interval '{interval}'")  # noqa: S608


async def test_what_was_read_is_found_by_tenant_content_engine_and_version(ledger: Ledger) -> None:
    """Whole, with its boxes; for nothing less than all four."""
    async with ledger.connection() as connection:
        await connection.execute("INSERT INTO tenant (id, name) VALUES ('other', 'Other')")
    await read_one(ledger)
    assert await seen(ledger) == Seen(0, READ)
    for different in ({"tenant": "other"}, {"sha256": b"another"}, {"engine": "paddle"}, {"version": "2"}):
        assert (await seen(ledger, **different)).read is None


async def test_a_reading_has_its_time(ledger: Ledger) -> None:
    """After it the image is read again; with 0 always."""
    await read_one(ledger)
    assert (await seen(ledger, reuse_seconds=0)).read is None
    await age(ledger, "engine_record", "created_at", "61 seconds")
    assert (await seen(ledger)).read is None


@pytest.mark.parametrize("state", [TaskState.FAILED, TaskState.DEAD])
async def test_only_good_ends_lend_their_readings(ledger: Ledger, state: TaskState) -> None:
    """What somebody could not judge may have been read badly."""
    await read_one(ledger, state=state)
    assert (await seen(ledger)).read is None


async def test_a_reading_of_the_present_version_is_found_behind_newer_ones(ledger: Ledger) -> None:
    """Runners of two versions may work side by side while one is being rolled out."""
    await read_one(ledger)
    await read_one(ledger, result=replace(READ, version="2"))
    assert (await seen(ledger)).read == READ


async def test_crashes_are_counted_per_image_and_version(ledger: Ledger) -> None:
    """A new version begins with a clean slate."""
    assert [await crash(ledger), await crash(ledger), await crash(ledger, b"another")] == [1, 2, 1]
    assert (await seen(ledger)).crashes == 2
    assert (await seen(ledger, version="2")).crashes == 0
    assert await crash(ledger, version="2") == 1
    assert (await seen(ledger)).crashes == 0


async def test_a_crash_is_no_other_tenants_business(ledger: Ledger) -> None:
    """Nobody can have another's images refused, or learn of them."""
    async with ledger.connection() as connection:
        await connection.execute("INSERT INTO tenant (id, name) VALUES ('other', 'Other')")
    assert [await crash(ledger, tenant="other"), await crash(ledger, tenant="other")] == [1, 2]
    assert (await seen(ledger)).crashes == 0


async def test_crashes_are_forgotten_after_their_time(ledger: Ledger) -> None:
    """Both when somebody asks and when somebody counts."""
    await crash(ledger)
    await crash(ledger)
    await age(ledger, "engine_crash", "last_at", f"{MARK_DAYS} days 1 hour")
    assert (await seen(ledger)).crashes == 0
    assert await crash(ledger) == 1


async def test_no_more_than_so_many_images_are_remembered(ledger: Ledger) -> None:
    """The oldest are forgotten."""
    async with ledger.connection() as connection:
        await connection.execute(
            "INSERT INTO engine_crash (tenant, sha256, engine, version, crashes, reason, last_task, last_at)"
            " SELECT $1, int4send(n), 'rapidocr', '1', 2, 'engine_crashed', $3, now() - n * interval '1 second'"
            " FROM generate_series(1, $2) n",
            DEFAULT_TENANT,
            MOST_MARKS,
            new_task_id(),
        )
        await crash(ledger)
        assert await connection.fetchval("SELECT count(*) FROM engine_crash") == MOST_MARKS
    assert (await seen(ledger, sha256=MOST_MARKS.to_bytes(4))).crashes == 0
    assert (await seen(ledger, sha256=(MOST_MARKS - 1).to_bytes(4))).crashes == 2


async def test_a_dead_letter_that_is_driven_again_is_tried_again(ledger: Ledger) -> None:
    """Once: what its image did before is forgiven, what it does now counts."""
    letter = await read_one(ledger, state=TaskState.DEAD)
    await crash(ledger)
    await crash(ledger)
    again = await read_one(ledger, b"x", state=TaskState.DEAD)
    async with ledger.connection() as connection:
        await connection.execute("UPDATE task SET redrive_of = $1 WHERE id = $2", letter, again)
    assert (await seen(ledger, task_id=again)).crashes == 0
    assert await crash(ledger) == 3
    assert (await seen(ledger, task_id=again)).crashes == 3
