"""A full disk under PostgreSQL (F20), as it says so itself: what it refuses waits, and nothing is lost or half done.

A trigger stands for the disk: it raises what PostgreSQL raises when it cannot extend a file (53100).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from detectsched.db.connection import Ledger
from detectsched.settings import Settings
from detectsched.task import TaskState
from tests.api.rig import MAC, png, problem, rigged
from tests.api.test_submit import text
from tests.support.actors import new_text
from tests.support.system import dispatching, runner
from tests.support.waiting import wait_until

_FULL: Final = """
CREATE SEQUENCE refused;
CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM nextval('refused');
    RAISE EXCEPTION 'could not extend file "base/1/2": No space left on device' USING ERRCODE = '53100';
END $$;
CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE ON task FOR EACH ROW EXECUTE FUNCTION full_disk();
"""
_ROOM: Final = "DROP TRIGGER full_disk ON task; DROP FUNCTION full_disk; DROP SEQUENCE refused"
_REFUSED: Final = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM refused"


@asynccontextmanager
async def full_disk(ledger: Ledger) -> AsyncIterator[None]:
    """Let the table of tasks take nothing."""
    async with ledger.connection() as connection:
        await connection.execute(_FULL)
    try:
        yield
    finally:
        async with ledger.connection() as connection:
            await connection.execute(_ROOM)


async def test_a_submission_is_refused_whole(settings: Settings) -> None:
    """503 with Retry-After, no row, nothing queued; with room it is taken."""
    files = {"image": ("i.png", png(), "image/png")}
    async with rigged(settings) as rig, rig.client() as client:
        async with full_disk(rig.ledger):
            problem(await client.post("/api/ocr/text", json=text()), 503, "unavailable")
            problem(await client.post("/api/ocr/image", files=files, data={"mac": MAC}), 503, "unavailable")
        assert await rig.rows() == []
        assert await rig.pending() == 0
        assert (await client.post("/api/ocr/image", files=files, data={"mac": MAC})).status_code == 202


async def test_what_was_accepted_waits_for_room(settings: Settings) -> None:
    """Neither a start nor a result can be written: runner and dispatcher go on, and no attempt is spent."""
    async with dispatching(settings) as system:
        ids = await system.submit(*(new_text(number) for number in range(10)))
        async with full_disk(system.ledger), runner(settings, "text"):

            async def tried() -> bool:
                async with system.ledger.connection() as connection:
                    return bool(await connection.fetchval(_REFUSED) >= 3)

            await wait_until(tried, "starts that were refused")
            assert {await system.state(task_id) for task_id in ids} == {TaskState.QUEUED}
        async with runner(settings, "text"):
            assert set(await system.wait_for_all(ids)) == {TaskState.SUCCEEDED}
        async with system.ledger.connection() as connection:
            assert await connection.fetchval("SELECT sum(attempts) FROM task") == 0
        await system.wait_until_at_rest()
