"""Reports: by time and group, page by page, as spreadsheets; each tenant sees its own."""

from __future__ import annotations

import asyncio
import csv
import io
import tracemalloc
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import httpx
import openpyxl
import pytest

from detectsched.api.export import Exports, Format, Table
from detectsched.db.connection import Ledger
from detectsched.db.statistics import count_due
from detectsched.db.streams import chunks
from detectsched.errors import SystemOverloaded
from detectsched.settings import ReportSettings
from detectsched.task import TaskError, TaskState
from tests.api.rig import Rig, problem
from tests.api.test_dead_letters import act, die
from tests.api.test_detections import report
from tests.api.test_devices import told
from tests.db.counting import BASE, Fact, end_task

FIRST, SECOND = "02:00:00:00:00:01", "02:00:00:00:00:02"
DAY = f"since={BASE - timedelta(hours=12):%Y-%m-%dT%H:%M:%SZ}&until={BASE + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"


async def fill(ledger: Ledger, *facts: Fact, tenant: str = "acme") -> None:
    """End tasks of a tenant, and count them."""
    async with ledger.connection() as connection:
        for fact in facts:
            task_id = await end_task(connection, fact)
            for table, key in (("task", "id"), ("hit", "task_id"), ("detection", "task_id")):
                await connection.execute(f"UPDATE {table} SET tenant = $2 WHERE {key} = $1", task_id, tenant)  # noqa: S608
    while await count_due(ledger, limit=100):
        pass


FACTS = (
    Fact("succeeded", mac=FIRST, words=(("c", "a"), ("c", "a"), ("d", "=b")), wait=timedelta(seconds=10)),
    Fact("succeeded", mac=FIRST, words=(("c", "b"),), hours_ago=1, wait=timedelta(seconds=20)),
    Fact("failed", mac=SECOND, hours_ago=1, run=timedelta(seconds=5)),
    Fact("expired", lane="ocr", run=None, hours_ago=9),
)


async def rows(client: httpx.AsyncClient, query: str, *columns: str) -> list[tuple[Any, ...]]:
    """Return columns of the rows of a report."""
    return [tuple(row[name] for name in columns) for row in (await told(client, f"/api/reports/{query}"))["items"]]


async def test_tasks_by_time_and_group(rig: Rig, client: httpx.AsyncClient) -> None:
    """Hours, days of a zone, all together; by device, lane, state; filtered; the largest first."""
    await fill(rig.ledger, *FACTS)
    await fill(rig.ledger, Fact("dead"), tenant="other")
    hours = await rows(client, f"tasks?{DAY}", "at", "tasks", "with_hits", "hits", "timed")
    assert hours == [
        ("2026-03-01T03:00:00Z", 1, 0, 0, 0),
        ("2026-03-01T11:00:00Z", 2, 1, 1, 2),
        ("2026-03-01T12:00:00Z", 1, 1, 3, 1),
    ]
    total = await rows(client, f"tasks?{DAY}&by=total", "at", "day", "tasks", "mac", "lane", "state")
    assert total == [(None, None, 4, None, None, None)]
    assert await rows(client, f"tasks?{DAY}&by=total&group=lane&group=state", "lane", "state", "tasks") == [
        ("ocr", "expired", 1),
        ("text", "failed", 1),
        ("text", "succeeded", 2),
    ]
    by_device = await rows(client, f"tasks?{DAY}&by=total&group=mac&order=hits", "mac", "tasks", "hits")
    assert by_device == [(FIRST, 2, 4), ("", 1, 0), (SECOND, 1, 0)]
    assert await rows(client, f"tasks?{DAY}&by=total&mac={FIRST.upper()}&state=succeeded", "tasks") == [(2,)]
    assert await rows(client, f"tasks?{DAY}&by=total&lane=ocr", "tasks", "wait_p50", "run_mean") == [(1, None, None)]
    assert await rows(client, f"tasks?{DAY}&by=total&mac=020000000009", "tasks") == []
    [(p50, p99, mean)] = await rows(client, f"tasks?{DAY}&by=total&mac={FIRST}", "wait_p50", "wait_p99", "wait_mean")
    assert p50 == pytest.approx(10, rel=0.09)
    assert p99 == pytest.approx(20, rel=0.09)
    assert mean == 15
    quick = await rows(client, f"tasks?{DAY}&by=total&mac={FIRST}&quantiles=false", "wait_p50", "run_p99", "wait_mean")
    assert quick == [(None, None, 15)]
    async with rig.client("other") as other:
        assert await rows(other, f"tasks?{DAY}&by=total&group=state", "state", "tasks") == [("dead", 1)]
    async with rig.client("boss") as boss:
        tenants = await rows(boss, f"tenants?{DAY}&by=total&group=state&state=dead", "tenant", "state", "tasks")
        assert tenants == [("other", "dead", 1)]
        assert await rows(boss, f"tenants?{DAY}&by=total&tenant=acme", "tenant", "tasks") == [("acme", 4)]


async def test_days_are_those_of_a_zone(rig: Rig, client: httpx.AsyncClient) -> None:
    """In whole-hour zones exactly, over a change of the clocks too; elsewhere an hour goes to the day it begins in."""
    await fill(rig.ledger, *FACTS, Fact("failed", hours_ago=-16), Fact("failed", hours_ago=-6))
    wide = "by=day&since=2026-02-27T00:00:00Z&until=2026-03-04T00:00:00Z"
    assert await rows(client, f"tasks?{wide}", "day", "at", "tasks") == [
        ("2026-03-01", "2026-03-01T00:00:00Z", 5),
        ("2026-03-02", "2026-03-02T00:00:00Z", 1),
    ]
    assert await rows(client, f"tasks?{wide}&zone=Asia/Shanghai", "day", "at", "tasks") == [
        ("2026-03-01", "2026-02-28T16:00:00Z", 4),
        ("2026-03-02", "2026-03-01T16:00:00Z", 2),
    ]
    # 18:30 UTC is midnight in India: what ended from 18:00 is that of the day before.
    assert await rows(client, f"tasks?{wide}&zone=Asia/Kolkata", "day", "tasks") == [
        ("2026-03-01", 5),
        ("2026-03-02", 1),
    ]
    await fill(rig.ledger, *(Fact("dead", hours_ago=-24 * 28 - offset) for offset in range(-13, 12)))
    summer = "by=day&since=2026-03-28T00:00:00Z&until=2026-03-31T00:00:00Z&zone=Europe/Berlin"
    assert await rows(client, f"tasks?{summer}", "day", "tasks") == [("2026-03-29", 23), ("2026-03-30", 2)]
    problem(await client.get("/api/reports/tasks?by=day&zone=Mars/Olympus"), 422, "invalid_request", field="zone")


async def test_words_by_category_and_word(rig: Rig, client: httpx.AsyncClient) -> None:
    """What was found in tasks and by devices; a task with two words of a category counts once for the category."""
    await fill(rig.ledger, *FACTS)
    assert (await client.post("/api/decter", json=report(detected_at=None))).status_code == 201
    await count_due(rig.ledger, limit=10)
    assert await rows(client, f"words?{DAY}&by=total&group=category", "category", "word", "tasks", "hits") == [
        ("c", None, 2, 3),
        ("d", None, 1, 1),
    ]
    assert await rows(
        client, f"words?{DAY}&by=total&group=category&group=word", "category", "word", "tasks", "hits"
    ) == [
        ("c", "a", 1, 2),
        ("c", "b", 1, 1),
        ("d", "=b", 1, 1),
    ]
    assert await rows(client, f"words?{DAY}&word=b", "at", "hits") == [("2026-03-01T11:00:00Z", 1)]
    assert await rows(client, f"words?{DAY}&by=total&group=word&category=c&order=hits&limit=1", "word") == [("a",)]
    mine = await rows(client, "words?by=total&group=lane&group=category&order=hits", "lane", "category", "hits")
    assert mine == [("", "fraud", 2), ("", "default", 1)]
    assert await rows(client, "tasks?group=state&group=lane", "state", "lane", "tasks", "hits", "wait_p50") == [
        ("reported", "", 1, 3, None)
    ]


async def test_purged_letters_stay_counted(rig: Rig, client: httpx.AsyncClient) -> None:
    """Also those that died a moment ago, and those behind a letter that was driven again."""
    await die(rig, client)
    assert (await act(client, expected_count=1)).json()["redriven"] == 1
    [started] = await rig.begin()
    await rig.finish(started, TaskState.DEAD, error=TaskError("engine_crashed", "again"))
    assert (await act(client, "purge", expected_count=1)).json()["purged"] == 1
    assert await rig.rows() == []
    assert await rows(client, "tasks?by=total&group=state", "state", "tasks") == [("dead", 2)]
    assert await count_due(rig.ledger, limit=10) == 0


async def test_pages(rig: Rig, client: httpx.AsyncClient) -> None:
    """By time and group, without gap or repeat; by total as well."""
    await fill(rig.ledger, *FACTS)
    for query in (f"tasks?{DAY}&group=mac&group=state", f"words?{DAY}&by=total&group=category&group=word"):
        whole = (await told(client, f"/api/reports/{query}"))["items"]
        seen: list[Any] = []
        cursor = ""
        while True:
            page = await told(client, f"/api/reports/{query}&limit=1{cursor}")
            seen += page["items"]
            if page["next_cursor"] is None:
                break
            cursor = f"&cursor={page['next_cursor']}"
        assert seen == whole
        assert len(whole) >= 3
        problem(await client.get(f"/api/reports/{query}&order=hits{cursor}"), 422, "invalid_request", field="cursor")
        problem(await client.get(f"/api/reports/tasks?{DAY}{cursor}"), 422, "invalid_request", field="cursor")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("by=week", "by"),
        ("group=word", "group.0"),
        ("zone=CET-1", "zone"),
        ("zone=../etc", "zone"),
        ("lane=gpu", "lane"),
        ("mac=x", "mac"),
        ("state=queued", "state"),
        ("format=pdf", "format"),
        ("format=ndjson", "format"),
        ("cursor=!!", "cursor"),
        ("cursor=W10=", "cursor"),
        ("cursor=NQ==", "cursor"),
        ("since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z", "since"),
        ("since=2020-01-01T00:00:00Z&until=2026-01-01T00:00:00Z", "since"),
        ("sice=2020-01-01T00:00:00Z", "sice"),
    ],
)
async def test_a_wrong_question_is_refused(client: httpx.AsyncClient, query: str, field: str) -> None:
    """The answer names the field."""
    problem(await client.get(f"/api/reports/tasks?{query}"), 422, "invalid_request", field=field)


async def test_csv(rig: Rig, client: httpx.AsyncClient) -> None:
    """By format or Accept, with a byte order mark if asked for; columns that say something; formulas neutralised."""
    await fill(rig.ledger, *FACTS)
    url = f"/api/reports/words?{DAY}&by=total&group=category&group=word"
    answer = await client.get(url, headers={"Accept": "text/html, text/csv;q=0.9"})
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"] == 'attachment; filename="words-20260301T00-20260301T14.csv"'
    assert answer.content == b"category,word,tasks,hits\r\nc,a,1,2\r\nc,b,1,1\r\nd,'=b,1,1\r\n"
    marked = await client.get(f"{url}&format=csv&bom=true")
    assert marked.content == "\ufeff".encode() + answer.content
    by_day = await client.get(f"/api/reports/tasks?{DAY}&by=day&group=lane&format=csv")
    head, *lines = csv.reader(io.StringIO(by_day.text))
    assert head[:5] == ["at", "day", "lane", "tasks", "with_hits"]
    assert [line[:4] for line in lines] == [
        ["2026-03-01T00:00:00Z", "2026-03-01", "ocr", "1"],
        ["2026-03-01T00:00:00Z", "2026-03-01", "text", "3"],
    ]
    empty = await client.get("/api/reports/words?format=csv&group=word")
    assert empty.text == "at,word,tasks,hits\r\n"
    assert (await client.get(url)).headers["content-type"] == "application/json"


async def test_xlsx(rig: Rig, client: httpx.AsyncClient) -> None:
    """A workbook that opens, with numbers as numbers."""
    await fill(rig.ledger, *FACTS)
    answer = await client.get(f"/api/reports/words?{DAY}&by=total&group=word&format=xlsx")
    assert answer.headers["content-type"].endswith("spreadsheetml.sheet")
    [sheet] = openpyxl.load_workbook(io.BytesIO(answer.content)).worksheets
    assert [[cell.value for cell in row] for row in sheet.iter_rows()] == [
        ["word", "tasks", "hits"],
        ["'=b", 1, 1],
        ["a", 1, 2],
        ["b", 1, 1],
    ]


@pytest.mark.parametrize("form", [Format.CSV, Format.XLSX, Format.NDJSON])
async def test_a_long_export_keeps_memory_flat(rig: Rig, form: Format) -> None:
    """A hundred thousand rows, sent to a reader that keeps none of them."""
    query = "SELECT n, 'word number ' || n AS word, now() AS at FROM generate_series(1, $1) AS n"
    exports = Exports(ReportSettings())

    async def export(count: int) -> tuple[int, int]:
        table = Table("t", ["n", "word", "at"], chunks(rig.ledger, query, count), tuple)
        tracemalloc.start()
        answer = await exports.answer(table, form)
        size = 0
        async for part in answer.body_iterator:
            size += len(part)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size, peak

    small_size, small_peak = await export(5000)
    size, peak = await export(100_000)
    assert size > 10 * small_size
    assert peak < small_peak + 6_000_000, (small_peak, peak)


async def test_exports_are_bounded_and_give_their_place_back(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """More at once are told to come back; a caller that leaves, a query that fails and a slow reader free the place."""
    monkeypatch.setattr("detectsched.api.export._PATIENCE_SECONDS", 0.01)
    exports = Exports(ReportSettings(exports_at_once=1, export_seconds=0.2))

    def table(query: str = "SELECT generate_series(1, $1::int) AS n", count: int = 5000) -> Table:
        return Table("t", ["n"], chunks(rig.ledger, query, count), tuple)

    held = await exports.answer(table(), Format.CSV)
    with pytest.raises(SystemOverloaded, match="exports"):
        await exports.answer(table(), Format.CSV)
    sent: list[Any] = []

    async def receive() -> Any:
        await asyncio.Event().wait()

    async def reads_slowly(message: Any) -> None:
        sent.append(message)
        if len(sent) == 3:
            await asyncio.Event().wait()

    with pytest.raises(BaseException):  # noqa: B017, PT011 - however it is told, it is broken off
        await held({"type": "http", "path": "/", "asgi": {"spec_version": "2.4"}}, receive, reads_slowly)
    assert not any(message.get("more_body") is False for message in sent), "a part must not look like the whole"
    with pytest.raises(asyncpg.UndefinedTableError):
        await exports.answer(table("SELECT $1::int FROM nowhere"), Format.CSV)
    last = await exports.answer(table(), Format.CSV)
    assert b"".join([part async for part in last.body_iterator if isinstance(part, bytes)]).count(b"\r\n") == 5001
    async with rig.ledger.connection() as connection:
        idle = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'"
        assert await connection.fetchval(idle) == 0


async def test_since_and_until_are_whole_hours(client: httpx.AsyncClient) -> None:
    """Rounded outwards; a day, or thirty, without them."""
    page = await told(client, "/api/reports/tasks?since=2026-01-01T10:30:00%2B01:00&until=2026-01-01T12:00:01Z")
    assert (page["since"], page["until"], page["items"]) == ("2026-01-01T09:00:00Z", "2026-01-01T13:00:00Z", [])
    page = await told(client, "/api/reports/tasks?by=total")
    since, until = (datetime.fromisoformat(page[name]) for name in ("since", "until"))
    assert until - since == timedelta(days=30)
    assert timedelta(0) <= until - datetime.now(UTC) < timedelta(hours=1)
