"""Tasks that are encrypted where they are kept, beside plain ones."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from detectsched.api.app import create_app
from detectsched.api.context import ApiContext
from detectsched.attempt import EngineRead, Started
from detectsched.db.connection import Ledger
from detectsched.db.results import save_reads
from detectsched.db.rewrap import rewrap
from detectsched.db.signing_secrets import opened_secret, sealed_secret
from detectsched.db.word_lists import publish
from detectsched.detection import Box, Detection, EngineResult, Hit, Line, ListVersion
from detectsched.errors import SealBroken
from detectsched.queueing.queue import GivenBack
from detectsched.runner.executor import Executor
from detectsched.runner.matchers import CompiledLists
from detectsched.settings import EncryptionSettings, Settings
from detectsched.task import TaskError, TaskState
from detectsched.wordlist import Word
from tests.api.rig import MAC, Rig, bearer, png, problem
from tests.encryption.conftest import MASTER_KEY

CANARY = "the 鸟 of 4711"
OTHER_KEY = base64.b64encode(b"another master key of 32 bytes!!").decode()


def with_keys(settings: Settings, *keys: str) -> Settings:
    """Return the same settings with these master keys."""
    return settings.model_copy(update={"encryption": EncryptionSettings(master_keys=SecretStr(",".join(keys)))})


async def seal(client: httpx.AsyncClient, wanted: bool = True) -> None:
    """Turn encryption at rest of the client's tenant on or off."""
    answer = await client.patch("/api/tenant", json={"encrypt_at_rest": wanted})
    assert answer.json()["encrypt_at_rest"] is wanted


async def submit(client: httpx.AsyncClient, text: str = CANARY, **headers: str) -> str:
    """Submit a text, and return its task."""
    answer = await client.post("/api/ocr/text", json={"mac": MAC, "text": text}, headers=headers)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["task_id"])


async def submit_image(client: httpx.AsyncClient) -> str:
    """Submit an image, and return its task."""
    files = {"image": ("a.png", png(), "image/png")}
    answer = await client.post("/api/ocr/image", files=files, data={"mac": MAC})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["task_id"])


async def everything(rig: Rig) -> str:
    """Return every row of every table as text."""
    async with rig.ledger.connection() as connection:
        tables = await connection.fetch("SELECT relname FROM pg_stat_user_tables")
        # ruff: noqa: S608 - the names are those of our own tables
        found = [await connection.fetch(f'SELECT t::text AS row FROM "{table["relname"]}" t') for table in tables]
    return "\n".join(str(row["row"]) for rows in found for row in rows)


class FakeReader:
    """An engine that reads the canary in every image it is given."""

    def __init__(self) -> None:
        self.seen: list[bytes] = []

    async def read(self, engine: str, data: bytes) -> EngineResult:
        """Return two lines."""
        self.seen.append(data)
        lines = (Line("first", Box(0, 0, 9, 9), 0.9), Line(CANARY, Box(0, 10, 9, 19), 0.8))
        return EngineResult("fake", "1", lines, 64, 32, 0.1)


async def examine(rig: Rig, started: Started, reader: Any = None) -> Detection:
    """Examine a started task as a runner would, keeping what was read."""

    async def keep(result: EngineResult) -> None:
        read = EngineRead(started.delivery.task_id, started.tenant, started.fence, result, started.seal)
        assert await save_reads(rig.ledger, [read]) == [True]

    return await Executor(reader, rig.blobs, CompiledLists(rig.ledger)).examine(started, keep)


async def run(rig: Rig, lane: str = "text", reader: Any = None) -> Started:
    """Run the next task to its end."""
    [started] = await rig.begin(lane)
    await rig.finish(started, detection=await examine(rig, started, reader))
    return started


async def test_what_is_sealed_reads_as_what_is_plain(rig: Rig, client: httpx.AsyncClient) -> None:
    """A text before, with and after encryption: the same to whoever may read it, and only the second is unreadable."""
    await publish(rig.ledger, "acme", "l", [Word("of")], name="l", is_default=True, by="test")
    plain = await submit(client)
    await seal(client)
    sealed = await submit(client)
    await seal(client, False)
    after = await submit(client)
    for _ in range(3):
        await run(rig)
    shown = [(await client.get(f"/api/tasks/{task_id}")).json() for task_id in (plain, sealed, after)]
    assert [[hit["matched"] for hit in task["hits"]] for task in shown] == [["of"]] * 3
    rows = await rig.rows()
    assert [row["text"] == CANARY for row in rows] == [True, False, True]
    assert [row["data_key"] is None for row in rows] == [True, False, True]
    async with rig.ledger.connection() as connection:
        matched = await connection.fetch("SELECT matched FROM hit ORDER BY task_id")
    assert [row["matched"] == "of" for row in matched] == [True, False, True]


async def test_no_table_and_no_file_holds_what_is_sealed(rig: Rig, client: httpx.AsyncClient) -> None:
    """Text, image, reading and matches: nothing of them is found, and all of it is shown."""
    await publish(rig.ledger, "acme", "l", [Word("OF")], name="l", is_default=True, by="test")
    await seal(client)
    text, image = await submit(client, **{"Idempotency-Key": "k"}), await submit_image(client)
    reader = FakeReader()
    await run(rig)
    await run(rig, "ocr", reader)
    assert reader.seen == [png()]
    kept = await everything(rig)
    assert CANARY not in kept
    assert "鸟" not in kept
    for digest in (hashlib.sha256(png()), hashlib.sha256(CANARY.encode())):
        assert digest.hexdigest() not in kept
    [blob] = [row["blob"] for row in await rig.rows() if row["blob"]]
    assert b"PNG" not in await rig.blobs.get(blob)
    shown = (await client.get(f"/api/tasks/{image}")).json()
    assert shown["reading"]["text"] == f"first\n{CANARY}"
    assert [line["text"] for line in shown["reading"]["lines"]] == ["first", CANARY]
    for task_id in (text, image):
        [hit] = (await client.get(f"/api/tasks/{task_id}")).json()["hits"]
        assert (hit["word"], hit["matched"]) == ("OF", "of")


async def test_what_was_read_once_is_not_read_again(rig: Rig, client: httpx.AsyncClient) -> None:
    """A retry of a sealed image resumes from the sealed reading."""
    await seal(client)
    await submit_image(client)
    [first] = await rig.begin("ocr")
    await examine(rig, first, FakeReader())
    await rig.queue.scripts.release([_given_back(first)])
    [second] = await rig.begin("ocr")
    assert second.fence == first.fence + 1
    assert second.read is not None
    assert second.read.joined().content == f"first\n{CANARY}"
    assert await examine(rig, second) == Detection((), second.lists)


async def test_repeats_are_recognised(rig: Rig, client: httpx.AsyncClient) -> None:
    """Nobody can try texts against the kept hash of a request; a repeat of it is the same request all the same."""
    before = await submit(client, **{"Idempotency-Key": "before"})
    await seal(client)
    first = await submit(client, **{"Idempotency-Key": "k"})
    assert await submit(client, **{"Idempotency-Key": "k"}) == first
    assert await submit(client, **{"Idempotency-Key": "before"}) == before
    await seal(client, False)
    assert await submit(client, **{"Idempotency-Key": "k"}) == first
    other = await client.post("/api/ocr/text", json={"mac": MAC, "text": "other"}, headers={"Idempotency-Key": "k"})
    problem(other, 409, "idempotency_mismatch")
    plain, sealed = await rig.rows()
    assert plain["request_hash"] != sealed["request_hash"]


@pytest.mark.parametrize("kind", ["text of another task", "image of another task", "text changed", "text laid open"])
async def test_what_was_moved_or_changed_is_not_examined(rig: Rig, client: httpx.AsyncClient, kind: str) -> None:
    """Whoever can write to the stores can swap nothing unnoticed; other tasks go on."""
    await seal(client)
    image = "image" in kind
    for _ in range(2):
        await (submit_image(client) if image else submit(client))
    first, second = await rig.rows()
    if image:
        await rig.blobs.put(first["blob"], await rig.blobs.get(second["blob"]))
    else:
        changed = {"text of another task": second["text"], "text changed": first["text"][:-8] + "AAAAAAA="}
        async with rig.ledger.connection() as connection:
            text = changed.get(kind, "an open text")
            await connection.execute("UPDATE task SET text = $2 WHERE id = $1", first["id"], text)
    broken, good = await rig.begin("ocr" if image else "text", room=2)
    with pytest.raises(SealBroken):
        await examine(rig, broken, FakeReader())
    await examine(rig, good, FakeReader())


async def test_without_its_master_key_nothing_is_lost_or_laid_open(
    rig: Rig, client: httpx.AsyncClient, settings: Settings
) -> None:
    """New tasks are refused, never kept plain; what is there is told to be sealed; with the key all is well again."""
    await seal(client)
    task_id = await submit(client)
    for wrong in (with_keys(settings), with_keys(settings, OTHER_KEY)):
        async with second_api(rig, wrong) as other:
            problem(await other.get(f"/api/tasks/{task_id}"), 500, "sealed")
            problem(await other.post("/api/ocr/text", json={"mac": MAC, "text": "x"}), 500, "sealed")
            assert (await other.get("/api/tasks")).status_code == 200
    assert len(await rig.rows()) == 1
    await run(rig)
    assert (await client.get(f"/api/tasks/{task_id}")).json()["state"] == "succeeded"


async def test_without_a_data_key_nothing_is_kept_plain(rig: Rig, client: httpx.AsyncClient) -> None:
    """A tenant that wants seals and whose key somebody has deleted is refused."""
    await seal(client)
    async with rig.ledger.connection() as connection:
        await connection.execute("DELETE FROM data_key")
    problem(await client.post("/api/ocr/text", json={"mac": MAC, "text": "x"}), 500, "sealed")
    assert await rig.rows() == []


async def test_there_must_be_a_master_key(rig: Rig, settings: Settings) -> None:
    """Without one encryption cannot be turned on."""
    async with second_api(rig, with_keys(settings)) as other:
        answer = await other.patch("/api/tenant", json={"encrypt_at_rest": True})
        assert "DETECTSCHED_ENCRYPTION_MASTER_KEYS" in problem(answer, 409, "conflict")["detail"]
        assert (await other.get("/api/tenant")).json()["encrypt_at_rest"] is False


async def test_tenants_do_not_share_a_key(rig: Rig, client: httpx.AsyncClient) -> None:
    """Each has its own, made once; a row that is given another tenant's name opens nothing."""
    await seal(client)
    await seal(client)
    async with rig.client("other") as stranger:
        await seal(stranger)
        await submit(stranger)
    await submit(client)
    async with rig.ledger.connection() as connection:
        keys = await connection.fetch("SELECT tenant, id FROM data_key ORDER BY tenant")
        assert [row["tenant"] for row in keys] == ["acme", "other"]
        # The tenant other takes acme's text for its own.
        await connection.execute(
            "UPDATE task SET text = (SELECT text FROM task WHERE tenant = 'acme') WHERE tenant = 'other'"
        )
    [theirs] = [row for row in await rig.rows() if row["tenant"] == "other"]
    async with rig.client("other") as stranger:
        problem(await stranger.get(f"/api/tasks/{theirs['id']}"), 500, "sealed")


@pytest.mark.parametrize("lane", ["text", "ocr"])
async def test_a_dead_letter_is_driven_again(rig: Rig, client: httpx.AsyncClient, lane: str) -> None:
    """A seal holds for one task: the new one's text is sealed anew, its image is that of the letter."""
    await seal(client)
    await (submit(client) if lane == "text" else submit_image(client))
    [started] = await rig.begin(lane)
    await rig.finish(started, TaskState.DEAD, error=TaskError("crash", "it broke"))
    answer = await client.post("/api/dead-letters/redrive", json={"filter": {}, "expected_count": 1})
    assert answer.json()["redriven"] == 1
    again = await run(rig, lane, FakeReader())
    assert again.seal is not None
    letter, new = await rig.rows()
    assert letter["data_key"] == new["data_key"]
    assert letter["text"] is None or letter["text"] != new["text"]
    assert again.text == (CANARY if lane == "text" else None)


async def test_the_master_key_is_replaced(rig: Rig, client: httpx.AsyncClient, settings: Settings) -> None:
    """Both in the settings, the new one first; all keys sealed anew; then the old one is needed no more."""
    await seal(client)
    task_id = await submit(client)
    kid = (await client.post("/api/encryption-keys")).json()["kid"]
    secrets = [sealed_secret(rig.ledger.master, "acme", "whsec_1"), "whsec_2"]
    async with rig.ledger.connection() as connection:
        keep = "INSERT INTO webhook_secret (tenant, secret) SELECT 'acme', unnest($1::text[])"
        await connection.execute(keep, secrets)
    async with second_api(rig, with_keys(settings, OTHER_KEY, MASTER_KEY)) as other:
        assert (await other.get(f"/api/tasks/{task_id}")).status_code == 200
    async with second_ledger(with_keys(settings, OTHER_KEY, MASTER_KEY)) as both:
        assert await rewrap(both) == 4
        assert await rewrap(both) == 0
    async with second_api(rig, with_keys(settings, OTHER_KEY)) as other:
        assert (await other.get(f"/api/tasks/{task_id}")).status_code == 200
        assert (await other.get("/api/encryption-keys/current")).json()["kid"] == kid
        async with second_ledger(with_keys(settings, OTHER_KEY)) as new, new.connection() as connection:
            kept = await connection.fetch("SELECT secret FROM webhook_secret ORDER BY id")
            opened = [opened_secret(new.master, "acme", row["secret"]) for row in kept]
            assert (opened, "whsec_2" in [row["secret"] for row in kept]) == (["whsec_1", "whsec_2"], False)
    async with second_api(rig, with_keys(settings, MASTER_KEY)) as other:
        problem(await other.get(f"/api/tasks/{task_id}"), 500, "sealed")


async def test_hits_of_one_task_cannot_be_swapped(rig: Rig, client: httpx.AsyncClient) -> None:
    """What was matched is bound to its place."""
    await seal(client)
    task_id = await submit(client, "one two")
    [started] = await rig.begin()
    hits = tuple(
        Hit(word, "c", 1, start, start + 3, word, ListVersion("l", 1)) for word, start in (("one", 0), ("two", 4))
    )
    await rig.finish(started, detection=Detection(hits, ()))
    async with rig.ledger.connection() as connection:
        await connection.execute(
            "UPDATE hit SET matched = (SELECT matched FROM hit WHERE start_offset = 4) WHERE start_offset = 0"
        )
    problem(await client.get(f"/api/tasks/{task_id}"), 500, "sealed")


@asynccontextmanager
async def second_ledger(settings: Settings) -> AsyncIterator[Ledger]:
    """Open the ledger a second time, with other settings, as another process would."""
    ledger = Ledger(settings.postgres, settings.encryption)
    try:
        yield ledger
    finally:
        await ledger.close()


@asynccontextmanager
async def second_api(rig: Rig, settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    """Give a client of the tenant acme of another API on the same stores."""
    async with second_ledger(settings) as ledger:
        app = create_app(ApiContext.make(rig.queue, ledger, rig.blobs, settings))
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://api", headers=bearer(rig.keys["acme"])
        ) as one:
            yield one


def _given_back(started: Started) -> GivenBack:
    return GivenBack(started.delivery.task_id, started.delivery.number, refund=True)
