"""Tasks that may not start before a time."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from detectsched.clock import utc_now
from detectsched.db.transitions import expire_due
from detectsched.dispatcher.rebuilder import Rebuilder
from tests.api.rig import MAC, Rig, png, problem
from tests.api.test_submit import text
from tests.api.test_tasks import submit
from tests.support.waiting import wait_until


def later(seconds: float) -> str:
    """Return a time as a caller writes it."""
    return (utc_now() + timedelta(seconds=seconds)).isoformat()


async def promoted(rig: Rig) -> int:
    """Bring back what is due, as the dispatcher's promoter does."""
    return (await rig.queue.scripts.promote(lease_seconds=60, limit=100, lanes=rig.settings.lanes)).count


async def test_a_delayed_task_starts_at_its_time(rig: Rig, client: httpx.AsyncClient) -> None:
    """Not before, whatever is free; others of its device go ahead; the answer and the task say when."""
    answer = await client.post("/api/ocr/text", json=text(not_before=later(1.0), ttl_seconds=60))
    assert answer.status_code == 202
    told = answer.json()
    at, until = datetime.fromisoformat(told["not_before"]), datetime.fromisoformat(told["expires_at"])
    assert until - at == timedelta(seconds=60), "the time to live counts from it"
    shown = (await client.get(f"/api/tasks/{told['task_id']}")).json()
    assert (shown["state"], shown["not_before"]) == ("queued", told["not_before"])
    other = await submit(client)
    assert [str(one.delivery.task_id) for one in await rig.begin(room=5)] == [other]
    assert await rig.pending() == 1

    async def due() -> bool:
        await promoted(rig)
        return bool(await rig.begin(room=5))

    await wait_until(due, "the delayed task starts")
    assert utc_now() >= at


async def test_a_delay_is_kept_over_a_loss_of_redis(rig: Rig, client: httpx.AsyncClient) -> None:
    """The ledger knows it."""
    await submit(client, not_before=later(3600))
    await rig.clients.commands.flushall()
    assert await Rebuilder(rig.queue, rig.ledger, rig.settings).run_once() == 1
    assert await rig.begin() == []
    assert await rig.pending() == 1


async def test_a_delayed_task_does_not_expire_early(rig: Rig, client: httpx.AsyncClient) -> None:
    """A time to live that is shorter than the delay begins after it."""
    task_id = await submit(client, not_before=later(3600), ttl_seconds=1)
    async with rig.ledger.connection() as connection:
        await connection.execute(
            "UPDATE task SET created_at = created_at - interval '30 minutes', "
            "not_before = not_before - interval '30 minutes', expires_at = expires_at - interval '30 minutes'"
        )
    assert await expire_due(rig.ledger, limit=10) == []
    assert await rig.state_of(task_id) == "queued"


async def test_a_delayed_object_keeps_its_order(rig: Rig, client: httpx.AsyncClient) -> None:
    """What was accepted later waits behind it."""
    await submit(client, mac=None, object="door", not_before=later(3600))
    await submit(client, mac=None, object="door")
    assert await rig.begin(room=5) == []


async def test_a_delayed_task_can_be_cancelled(rig: Rig, client: httpx.AsyncClient) -> None:
    """At once."""
    task_id = await submit(client, not_before=later(3600))
    assert (await client.delete(f"/api/tasks/{task_id}")).status_code == 200
    assert await rig.pending() == 0


async def test_a_time_that_has_passed_means_now(rig: Rig, client: httpx.AsyncClient) -> None:
    """Also one long ago."""
    for moment in (later(-1), "1970-01-01T00:00:00+23:59"):
        answer = await client.post("/api/ocr/text", json=text(not_before=moment))
        assert (answer.status_code, answer.json()["not_before"]) == (202, None), answer.text
    assert len(await rig.begin(room=5)) == 2


async def test_every_way_of_submitting_takes_it(rig: Rig, client: httpx.AsyncClient) -> None:
    """JSON, a form, a line of a batch."""
    moment = later(3600)
    files = {"image": ("i.png", png(), "image/png")}
    form = await client.post("/api/ocr/image", files=files, data={"mac": MAC, "not_before": moment})
    assert form.status_code == 202, form.text
    line = json.dumps({"kind": "text", **text(not_before=moment)})
    batch = await client.post("/api/tasks/batch", content=line, headers={"Content-Type": "application/x-ndjson"})
    wanted = datetime.fromisoformat(moment)
    for task in (form.json(), batch.json()["results"][0]["task"]):
        assert datetime.fromisoformat(task["not_before"]) == wanted
    assert [row["not_before"] for row in await rig.rows()] == [wanted, wanted]


async def test_the_delay_is_part_of_the_request(client: httpx.AsyncClient) -> None:
    """The same key with another time is another request; the same moment in another zone is the same."""
    key = {"Idempotency-Key": "k"}
    moment = utc_now() + timedelta(hours=1)
    first = await client.post("/api/ocr/text", json=text(not_before=moment.isoformat()), headers=key)
    elsewhere = moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
    again = await client.post("/api/ocr/text", json=text(not_before=elsewhere), headers=key)
    assert again.json() == {**first.json(), "replayed": True}
    problem(
        await client.post("/api/ocr/text", json=text(not_before=later(60)), headers=key), 409, "idempotency_mismatch"
    )
    problem(await client.post("/api/ocr/text", json=text(), headers=key), 409, "idempotency_mismatch")


@pytest.mark.parametrize(
    "moment",
    [
        "2026-12-24",
        "2026-12-24T08:00:00",
        "2026",
        "1767225600",
        1767225600,
        "soon",
        "",
        "9999-12-31T23:59:59Z",
        "2026-13-40T00:00:00Z",
        True,
    ],
)
async def test_absurd_times_are_refused(rig: Rig, client: httpx.AsyncClient, moment: Any) -> None:
    """No zone, no time of day, a bare number, no such day, too far ahead."""
    answer = await client.post("/api/ocr/text", json=text(not_before=moment))
    problem(answer, 422, "invalid_request", field="not_before")
    if isinstance(moment, str) and moment:
        form = {"mac": MAC, "not_before": moment}
        answer = await client.post("/api/ocr/image", files={"image": ("i.png", png(), "image/png")}, data=form)
        problem(answer, 422, "invalid_request", field="not_before")
    assert await rig.rows() == []


async def test_thirty_days_are_the_most(client: httpx.AsyncClient) -> None:
    """A task counts as waiting all the while."""
    days = timedelta(days=30).total_seconds()
    await submit(client, not_before=later(days - 60))
    answer = await client.post("/api/ocr/text", json=text(not_before=later(days + 60)))
    assert "30 days" in problem(answer, 422, "invalid_request", field="not_before")["detail"]
