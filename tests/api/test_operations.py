"""What those who run the system ask."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr

from detectsched.api.app import create_app
from detectsched.api.context import ApiContext
from detectsched.db.connection import Ledger
from detectsched.embedded.servers import EmbeddedPostgres
from detectsched.settings import PostgresSettings
from tests.api.rig import Rig, bearer, problem
from tests.api.test_submit import text
from tests.runner.test_capacity import runner
from tests.support.waiting import wait_until


async def checks(client: httpx.AsyncClient, status: int) -> dict[str, tuple[bool, str]]:
    """Return what readyz says of every check, once it answers with this status."""

    async def answer() -> httpx.Response | None:
        got = await client.get("/readyz?verbose")
        return got if got.status_code == status else None

    got = await wait_until(answer, f"readyz says {status}")
    assert got is not None
    assert got.json()["ok"] is (status == 200)
    return {check["name"]: (check["ok"], check["detail"]) for check in got.json()["checks"]}


async def test_ready_means_that_requests_can_be_served(rig: Rig) -> None:
    """Every store is asked; a closed gate and a stop make it unready, a rebuild makes it ready again; no key needed."""
    async with rig.client(None) as client:
        assert (await client.get("/livez")).json() == {"ok": True, "checks": []}
        assert (await client.get("/readyz")).json() == {"ok": True, "checks": []}
        found = await checks(client, 200)
        assert found == {
            "server": (True, "running"),
            "postgresql": (True, "reachable"),
            "migrations": (True, "up to date"),
            "queues": (True, "open"),
        }
        await rig.clients.commands.flushall()
        assert (await checks(client, 503))["queues"] == (
            False,
            "being rebuilt from the ledger; that needs a dispatcher",
        )
        await rig.open_gate()
        await checks(client, 200)
        rig.context.begin_stop()
        assert (await checks(client, 503))["server"] == (False, "stopping")
        assert (await client.get("/livez")).status_code == 200


async def test_not_ready_without_postgresql_or_its_schema(rig: Rig, postgres_server: EmbeddedPostgres) -> None:
    """Away, and empty; without a word of addresses."""
    settings = rig.settings.postgres
    for url, expected in (
        ("postgresql://someone@127.0.0.1:1/secret", {"postgresql": "not reachable", "migrations": "not reachable"}),
        (
            postgres_server.url_of("postgres"),
            {"migrations": "the database has no tables yet; run: detectsched db upgrade"},
        ),
    ):
        postgres = PostgresSettings(**settings.model_dump() | {"url": SecretStr(url)})
        changed = rig.settings.model_copy(update={"postgres": postgres})
        ledger = Ledger(postgres)
        app = create_app(ApiContext.make(rig.queue, ledger, rig.blobs, changed))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://api") as client:
            found = await checks(client, 503)
        await ledger.close()
        assert {name: detail for name, (ok, detail) in found.items() if not ok} == expected


async def test_metrics_count_what_happens(rig: Rig, client: httpx.AsyncClient) -> None:
    """By route template and status, refusals by reason, and what Redis counts."""
    task_id = (await client.post("/api/ocr/text", json=text())).json()["task_id"]
    await client.get(f"/api/tasks/{task_id}")
    await client.post("/api/ocr/text", json=text(lane="gpu"))
    await client.get("/api/nothing")
    [started] = await rig.begin()
    await client.post("/api/ocr/text", json=text())
    figures = samples((await client.get("/metrics")).text)
    requests = "detectsched_http_requests_total"
    assert figures[requests, ("POST", "/api/ocr/text", "202")] == 2
    assert figures[requests, ("POST", "/api/ocr/text", "422")] == 1
    assert figures[requests, ("GET", "/api/tasks/{task_id}", "200")] == 1
    assert figures[requests, ("GET", "unmatched", "404")] == 1
    assert figures["detectsched_http_problems_total", ("invalid_request",)] == 1
    assert figures["detectsched_accept_group_size_sum", ()] == 2
    assert figures["detectsched_pending_tasks", ()] == 1
    assert figures["detectsched_pending_subjects", ()] == 1
    assert figures["detectsched_outstanding_tasks", ("text",)] == 1
    await rig.finish(started)
    figures = samples((await client.get("/metrics")).text)
    assert figures["detectsched_outstanding_tasks", ("text",)] == 0
    assert figures["detectsched_completed_tasks_total", ("text",)] == 1
    assert figures["detectsched_redis_up", ()] == 1
    assert not [name for name, labels in figures if task_id in labels or "acme" in labels]


async def test_metrics_tell_what_runners_say_of_themselves(rig: Rig, client: httpx.AsyncClient) -> None:
    """By runner, while it reports itself; with the alarm for engines that read nothing."""
    record = replace(runner("a"), images_read=7, images_reused=2, engines_replaced=1, empty_share=0.25, empty_alarm=1)
    record = replace(record, fenced=3)
    await rig.queue.registry.report(record, ttl_seconds=5, changed=True, lanes=("ocr",))
    figures = samples((await client.get("/metrics")).text)
    assert figures["detectsched_runner_images_read_total", ("a:1",)] == 7
    assert figures["detectsched_runner_images_reused_total", ("a:1",)] == 2
    assert figures["detectsched_runner_engines_replaced_total", ("a:1",)] == 1
    assert figures["detectsched_runner_fenced_total", ("a:1",)] == 3
    assert figures["detectsched_runner_empty_share", ("a:1",)] == 0.25
    assert figures["detectsched_runner_empty_alarm", ("a:1",)] == 1
    await rig.queue.registry.remove(record.name, ("ocr",))
    assert ("detectsched_runner_images_read_total", ("a:1",)) not in samples((await client.get("/metrics")).text)


def samples(page: str) -> dict[tuple[str, tuple[str, ...]], float]:
    """Return a page of figures by name and label values (in the order of the labels' names)."""
    return {
        (sample.name, tuple(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


async def test_metrics_are_for_the_machine_itself_and_for_admins(rig: Rig) -> None:
    """Open on loopback unless a proxy speaks for somebody; elsewhere an admin's key is needed."""
    app = create_app(rig.context)
    cases: list[tuple[Any, dict[str, str], int]] = [
        (("127.0.0.1", 1), {}, 200),
        (("::1", 1), {}, 200),
        (("127.0.0.1", 1), {"X-Forwarded-For": "192.0.2.1"}, 401),
        (("127.0.0.1", 1), {"Forwarded": "for=192.0.2.1"}, 401),
        (("192.0.2.1", 1), {}, 401),
        (("192.0.2.1", 1), {"X-Forwarded-For": "127.0.0.1"}, 401),
        (("192.0.2.1", 1), bearer(rig.keys["read"]), 403),
        (("192.0.2.1", 1), bearer(rig.keys["admin"]), 200),
        (("not an address", 1), {}, 401),
    ]
    for peer, headers, status in cases:
        transport = httpx.ASGITransport(app, client=peer)
        async with httpx.AsyncClient(transport=transport, base_url="http://api", headers=headers) as client:
            assert (await client.get("/metrics")).status_code == status, (peer, headers)


async def test_the_level_is_shown_as_it_was_published(rig: Rig, client: httpx.AsyncClient) -> None:
    """404 while nobody publishes one."""
    problem(await client.get("/api/watermark"), 404, "not_found")
    level = {
        "total_pending": 3,
        "mac_count": 2,
        "active_workers": 1,
        "timestamp": "2026-11-30T00:00:00Z",
        "drain_per_second": 1.5,
        "outstanding": {"ocr": 1, "text": 0},
        "lanes": {
            "text": {
                "desired": 1,
                "backlog": 2,
                "backlog_seconds": None,
                "oldest_wait_seconds": 1.5,
                "reason": "a reason",
            }
        },
    }
    await rig.queue.publish_watermark(json.dumps(level), ttl_seconds=60)
    assert (await client.get("/api/watermark")).json() == level


@pytest.mark.parametrize("path", ["/docs", "/redoc", "/openapi.json"])
async def test_no_pages_for_strangers(rig: Rig, path: str) -> None:
    """Documentation is behind a key; FastAPI's own pages, which load scripts from elsewhere, are not there."""
    async with rig.client(None) as client:
        problem(await client.get(path), 401, "unauthenticated")
