"""A whole run, encrypted on the way and at rest: the content is in no log line, no table, no file and not in Redis."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest
import redis.asyncio

from detectsched.db.word_lists import publish
from detectsched.settings import LogFormat, LogSettings, Settings
from detectsched.telemetry import configure_logging
from detectsched.wordlist import Word
from tests.api.rig import MAC, Rig
from tests.encryption.conftest import MASTER_KEY
from tests.encryption.test_at_rest import everything, seal
from tests.encryption.test_requests import make_key, send
from tests.support.sender import encrypted
from tests.support.system import dispatching, runner
from tests.support.waiting import wait_until

CANARY = "kanarienvogel"
SENTENCE = f"the {CANARY.upper()} sings"


async def test_the_content_is_nowhere_but_in_the_answer(
    rig: Rig, client: httpx.AsyncClient, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    """Accepted, dispatched, matched, shown, refused in every way, failed in PostgreSQL: at the level debug."""
    configure_logging(LogSettings(level="debug", format=LogFormat.JSON), "test")
    await publish(rig.ledger, "acme", "l", [Word(CANARY)], name="l", is_default=True, by="test")
    key = await make_key(client)
    await seal(client)
    async with dispatching(settings), runner(settings, "text"):
        answer = await send(client, encrypted(key, {"mac": MAC, "text": SENTENCE}, jti="k"))
        task = await _ended(client, answer.json()["task_id"])
    assert (task["state"], [hit["matched"] for hit in task["hits"]]) == ("succeeded", [CANARY.upper()])
    await _every_error(rig, client, key)
    written = capsys.readouterr()
    for secret in (CANARY.upper(), MASTER_KEY, rig.keys["acme"]):
        assert secret not in written.err + written.out
    assert "confidential request failed" in written.err
    assert "encrypted request refused" in written.err
    assert CANARY.upper() not in await everything(rig)
    assert CANARY.upper().encode() not in await _redis(settings)
    directory = Path(settings.blobs.url.removeprefix("file:"))
    assert not [file for file in await asyncio.to_thread(lambda: list(directory.rglob("*"))) if file.is_file()]


async def _every_error(rig: Rig, client: httpx.AsyncClient, key: dict[str, Any]) -> None:
    """Send what is refused with words that quote it, and what PostgreSQL refuses with the row."""
    good = {"mac": MAC, "text": SENTENCE}
    refused: list[tuple[int, bytes | dict[str, Any]]] = [
        (400, json.dumps(good).encode() + b"}"),
        (400, SENTENCE.encode()),
        (422, good | {"mac": SENTENCE}),
        (422, good | {SENTENCE: 1}),
        (422, good | {"lane": CANARY}),
        (422, good | {"word_lists": [CANARY]}),
        (422, good | {"mac": None, "object": SENTENCE + "\x07"}),
    ]
    for status, document in refused:
        answer = await send(client, encrypted(key, document))
        assert answer.status_code == status, answer.text
    assert (await send(client, encrypted(key, good | {"text": f"{SENTENCE}!"}, jti="k"))).status_code == 409
    assert (await send(client, encrypted(key, good)[:-2])).status_code == 400
    async with rig.ledger.connection() as connection:
        await connection.execute("ALTER TABLE task ADD CHECK (lane <> 'text') NOT VALID")
    await seal(client, False)
    assert (await send(client, encrypted(key, good))).status_code == 500


async def test_what_postgresql_says_quotes_nobody(rig: Rig) -> None:
    """One request's row may fail the statement of many: its error, which all of them get, tells nothing of it."""
    async with rig.ledger.connection() as connection:
        await connection.execute("ALTER TABLE tenant ADD CHECK (length(name) < 10)")
    with pytest.raises(asyncpg.CheckViolationError) as violated:
        async with rig.ledger.connection() as connection:
            await connection.execute("INSERT INTO tenant (id, name) VALUES ('x', $1)", SENTENCE)
    with pytest.raises(asyncpg.DataError) as wrong:
        async with rig.ledger.connection() as connection:
            await connection.fetch("SELECT $1::int", SENTENCE)
    assert CANARY.upper() not in str(violated.value) + str(wrong.value)


async def _redis(settings: Settings) -> bytes:
    """Return every value that Redis holds."""
    async with redis.asyncio.from_url(settings.redis.url.get_secret_value()) as connection:
        dumps = [await connection.dump(name) async for name in connection.scan_iter()]
    return b"".join(dumped or b"" for dumped in dumps)


async def test_a_task_that_cannot_be_opened_is_dead_and_can_be_driven_again(
    rig: Rig, client: httpx.AsyncClient, settings: Settings
) -> None:
    """A runner without the master key says so in the task's error; with it, a re-drive examines the text."""
    await publish(rig.ledger, "acme", "l", [Word(CANARY)], name="l", is_default=True, by="test")
    await seal(client)
    keyless = settings.model_copy(update={"encryption": type(settings.encryption)()})
    async with dispatching(settings):
        async with runner(keyless, "text"):
            task_id = (await client.post("/api/ocr/text", json={"mac": MAC, "text": SENTENCE})).json()["task_id"]
            task = await _ended(client, task_id)
        assert (task["state"], task["error"]["reason"]) == ("dead", "sealed")
        assert "DETECTSCHED_ENCRYPTION_MASTER_KEYS" in task["error"]["detail"]
        async with runner(settings, "text"):
            await client.post("/api/dead-letters/redrive", json={"filter": {}, "expected_count": 1})
            again = (await client.get(f"/api/tasks/{task_id}")).json()["redriven_as"]
            task = await _ended(client, again)
    assert (task["state"], [hit["matched"] for hit in task["hits"]]) == ("succeeded", [CANARY.upper()])


async def _ended(client: httpx.AsyncClient, task_id: str) -> dict[str, Any]:
    async def ended() -> dict[str, Any] | None:
        task: dict[str, Any] = (await client.get(f"/api/tasks/{task_id}")).json()
        return task if task["state"] in {"succeeded", "dead", "failed"} else None

    found: dict[str, Any] | None = await wait_until(ended, f"task {task_id} ended", 30.0)
    assert found is not None
    return found
