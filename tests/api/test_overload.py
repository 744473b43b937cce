"""Refusing early, with the truth: whose backlog it is, and when there will be room."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from detectsched.api.overload import Drain, drain_of, seconds_until_room
from detectsched.settings import ApiSettings, Settings
from tests.api.rig import Rig, problem, rigged
from tests.api.test_submit import text
from tests.support.actors import mac_number

LIMITS = ApiSettings(
    max_total_pending=30, max_per_mac_pending=10, overload_release_ratio=0.5, max_retry_after_seconds=100
)


@pytest.fixture
async def rig(settings: Settings) -> AsyncIterator[Rig]:
    """Give an API with small limits."""
    async with rigged(settings.model_copy(update={"api": LIMITS})) as rig:
        yield rig


async def send(client: httpx.AsyncClient, device: int, key: str | None = None) -> httpx.Response:
    """Submit a text of a device."""
    headers = {"Idempotency-Key": key} if key else {}
    return await client.post("/api/ocr/text", json=text(mac=mac_number(device)), headers=headers)


async def fill(client: httpx.AsyncClient, device: int) -> int:
    """Submit texts of a device until it is refused; return how many were taken."""
    taken = 0
    while (await send(client, device)).status_code == 202:
        taken += 1
    return taken


async def publish(rig: Rig, **level: Any) -> None:
    """Publish a level, as a dispatcher does."""
    document = {"total_pending": 0, "mac_count": 1, "active_workers": 1, "timestamp": "2026-11-30T00:00:00Z"}
    document |= {"drain_per_second": None, "outstanding": {}} | level
    await rig.queue.publish_watermark(json.dumps(document), ttl_seconds=60)


async def test_a_device_over_its_limit_is_told_so_until_it_is_well_below(rig: Rig, client: httpx.AsyncClient) -> None:
    """429 for that device alone, not released until its backlog has halved; then it is taken again."""
    assert await fill(client, 1) == 11
    refused = await send(client, 1)
    detail = problem(refused, 429, "device_overloaded")["detail"]
    assert mac_number(1) in detail
    assert (await send(client, 2)).status_code == 202
    assert len(await rig.rows()) == 12
    for left in (10, 9, 8, 7, 6):
        await serve(rig, 1)
        problem(await send(client, 1), 429, "device_overloaded")
        assert len(await rig.rows()) == 12, left
    await serve(rig, 1)
    assert (await send(client, 1)).status_code == 202


async def serve(rig: Rig, device: int) -> None:
    """Take one waiting task of a device out of the queues."""
    for row in await rig.rows():
        if row["mac"] == mac_number(device) and row["state"] == "queued":
            async with rig.client() as client:
                assert (await client.delete(f"/api/tasks/{row['id']}")).status_code == 200
            return


async def test_objects_are_counted_alone(rig: Rig, client: httpx.AsyncClient) -> None:
    """An object's backlog is its own, not its device's."""
    for _ in range(11):
        assert (await client.post("/api/ocr/text", json={"object": "door", "text": "x"})).status_code == 202
    refused = await client.post("/api/ocr/text", json={"object": "door", "text": "x"})
    assert "'door'" in problem(refused, 429, "device_overloaded")["detail"]
    assert (await send(client, 1)).status_code == 202


async def test_a_full_system_refuses_everybody(rig: Rig, client: httpx.AsyncClient) -> None:
    """503 for a device that has nothing waiting, too; other tenants included."""
    for device in (1, 2, 3):
        await fill(client, device)
    problem(await send(client, 4), 503, "system_overloaded")
    async with rig.client("other") as stranger:
        problem(await send(stranger, 4), 503, "system_overloaded")
    assert await rig.pending() == 31


async def test_a_committed_task_is_never_refused(rig: Rig, client: httpx.AsyncClient) -> None:
    """A repeat is answered with its task although its device, or everything, is over the limit."""
    task_id = (await send(client, 1, "k")).json()["task_id"]
    await fill(client, 1)
    assert (await send(client, 1, "k")).json()["task_id"] == task_id
    for device in (2, 3):
        await fill(client, device)
    repeated = await send(client, 1, "k")
    assert (repeated.status_code, repeated.json()["task_id"]) == (202, task_id)
    problem(await send(client, 1, "new"), 503, "system_overloaded")


async def test_a_limit_is_overshot_by_no_more_than_what_is_in_flight(rig: Rig, client: httpx.AsyncClient) -> None:
    """Five senders at once get at most five tasks more than one alone."""

    async def sender() -> int:
        return sum([(await send(client, 1)).status_code == 202 for _ in range(20)])

    taken = sum(await asyncio.gather(*(sender() for _ in range(5))))
    assert 11 <= taken <= 11 + 5
    assert await rig.pending() == taken


async def test_retry_after_is_the_measured_truth(rig: Rig, client: httpx.AsyncClient) -> None:
    """A device gets its share of the drain, the system all of it, within the bounds; ten per cent of jitter."""
    for device in (1, 2, 3):
        await fill(client, device)
    await serve(rig, 3)
    # Device 1 has to fall from 11 to 5 at a third of 0.5 tasks a second: 36 s.
    await publish(rig, drain_per_second=0.5, mac_count=3)
    told = {problem(await ApiFresh(rig).send(1), 429, "device_overloaded")["retry_after"] for _ in range(30)}
    assert told <= set(range(33, 41))
    assert len(told) > 1, "those who were refused together return together"
    await publish(rig, drain_per_second=1000.0, mac_count=3)
    assert problem(await ApiFresh(rig).send(1), 429, "device_overloaded")["retry_after"] == 1
    await publish(rig, drain_per_second=0.001, mac_count=3)
    assert problem(await ApiFresh(rig).send(1), 429, "device_overloaded")["retry_after"] == 100
    assert (await send(client, 4)).status_code == 202
    # The system has to fall from 31 to 15 at 0.5 tasks a second: 32 s.
    await publish(rig, drain_per_second=0.5, mac_count=3)
    assert 29 <= problem(await ApiFresh(rig).send(5), 503, "system_overloaded")["retry_after"] <= 36


class ApiFresh:
    """The same API without what it remembers of the level."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig

    async def send(self, device: int) -> httpx.Response:
        """Submit a text of a device."""
        context = self._rig.context
        fresh = type(context).make(context.queue, context.ledger, self._rig.blobs, context.settings)
        rig = Rig(self._rig.settings, self._rig.clients, context.queue, context.ledger, self._rig.blobs, fresh)
        rig.keys = self._rig.keys
        async with rig.client() as client:
            return await send(client, device)


async def test_without_a_measurement_the_setting_is_told(rig: Rig, client: httpx.AsyncClient) -> None:
    """No level, a level without a rate, one that drains nothing, or one that is no JSON: 30 s."""
    await fill(client, 1)
    assert problem(await send(client, 1), 429, "device_overloaded")["retry_after"] == 30
    for watermark in ("", "null", "[]", "{", '{"drain_per_second": null, "mac_count": 1}', '{"drain_per_second": 1}'):
        assert drain_of(watermark) is None
    for rate in ("0", "-1", "NaN", "Infinity", '"x"'):
        assert drain_of(f'{{"drain_per_second": {rate}, "mac_count": 1}}') is None
    assert drain_of('{"drain_per_second": 2, "mac_count": 0}') == Drain(2.0, 1)


def test_time_until_room() -> None:
    """Excess over rate; a share of the rate for one of several devices; never negative."""
    drain = Drain(4.0, devices=2)
    assert seconds_until_room(100, drain, shared=False) == 25.0
    assert seconds_until_room(100, drain, shared=True) == 50.0
    assert seconds_until_room(-5, drain, shared=True) == 0.0
