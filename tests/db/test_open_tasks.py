"""Open tasks in pages: a range of sequences each, and in it queue by queue."""

from __future__ import annotations

from detectsched.attempt import Ending, Started
from detectsched.db.accept import accept
from detectsched.db.connection import Ledger
from detectsched.db.open_tasks import open_page
from detectsched.db.results import end
from detectsched.db.starts import start
from detectsched.task import DEFAULT_TENANT, Delivery, TaskState
from tests.support.actors import new_text


async def test_pages_hold_what_is_open_by_queue(ledger: Ledger) -> None:
    """Nothing twice, nothing left out, no task that has ended; one that runs is open."""
    rows = await accept(ledger, [new_text(number % 3) for number in range(50)])
    [started, _] = await start(
        ledger, [Delivery(row.task.id, 1, "text", "1-1") for row in (rows[7], rows[8])], runner="host:1:boot"
    )
    assert isinstance(started, Started)
    await end(ledger, [Ending(rows[7].task.id, DEFAULT_TENANT, started.fence, TaskState.SUCCEEDED)])
    still = [row.task for row in rows if row is not rows[7]]
    found, after = [], 0
    while page := await open_page(ledger, after=after, limit=20):
        here = [row.task for row in page]
        assert len(here) == len(page)
        assert here == sorted(here, key=lambda task: (str(task.queue), task.sequence))
        assert {task.sequence for task in here} == {t.sequence for t in still if after < t.sequence <= page.last}
        found += here
        after = page.last
    assert page.last == after
    assert {task.id for task in found} == {task.id for task in still}
    assert len(found) == len(still)
