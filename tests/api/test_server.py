"""The daemon on a real socket: long-polls, bodies that stream, starting and stopping."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any
from uuid import UUID

import httpx
import pytest
import structlog

from detectsched.api.limits import WORD_LIST_BYTES, body_limit
from detectsched.api.server import ApiServer
from detectsched.clock import monotonic
from detectsched.errors import ConfigurationError
from detectsched.settings import ApiSettings, Settings
from tests.api.rig import MAC, Rig, bearer, png, problem, rigged
from tests.api.test_submit import text
from tests.support.contract import check_service_contract
from tests.support.waiting import wait_until

SETTINGS = ApiSettings(port=0, grace_seconds=30.0, max_wait_seconds=30.0)


@pytest.fixture
async def rig(settings: Settings) -> AsyncIterator[Rig]:
    """Give the stores of a server on a free port."""
    async with rigged(settings.model_copy(update={"api": SETTINGS})) as rig:
        yield rig


@pytest.fixture
async def server(rig: Rig) -> AsyncIterator[ApiServer]:
    """Give a running server."""
    running = ApiServer(rig.queue, rig.ledger, rig.blobs, rig.settings)
    await running.start()
    yield running
    await running.stop()


@pytest.fixture
async def client(rig: Rig, server: ApiServer) -> AsyncIterator[httpx.AsyncClient]:
    """Give a client of the running server."""
    url = f"http://127.0.0.1:{server.port}"
    async with httpx.AsyncClient(base_url=url, headers=bearer(rig.keys["acme"]), timeout=20.0) as client:
        yield client


async def submit(client: httpx.AsyncClient) -> str:
    """Submit a text and return its task's id."""
    answer = await client.post("/api/ocr/text", json=text())
    assert answer.status_code == 202, answer.text
    return str(answer.json()["task_id"])


def waiting(server: ApiServer, task_id: str) -> int:
    """Return how many long-polls wait for a task."""
    return len(server.context.waiters._by_key.get(UUID(task_id), ()))


async def polling(server: ApiServer, client: httpx.AsyncClient, task_id: str) -> asyncio.Task[httpx.Response]:
    """Begin a long-poll and return when the server waits for the task."""
    before = waiting(server, task_id)
    poll = asyncio.create_task(client.get(f"/api/tasks/{task_id}?wait=20"))
    await wait_until(lambda: waiting(server, task_id) > before, "the server waits for the task")
    return poll


# Long-polls ---------------------------------------------------------------------------------------------------------


async def test_a_long_poll_returns_when_its_task_ends(rig: Rig, server: ApiServer, client: httpx.AsyncClient) -> None:
    """Not before, and not at the next look but by the hint; others go on waiting."""
    mine, other = await submit(client), await submit(client)
    poll, bystander = await polling(server, client, mine), await polling(server, client, other)
    [started] = await rig.begin()
    assert str(started.delivery.task_id) == mine
    assert not poll.done()
    await rig.finish(started)
    answer = await poll
    assert answer.json()["state"] == "succeeded"
    assert not bystander.done()
    await client.delete(f"/api/tasks/{other}")
    assert (await bystander).json()["state"] == "cancelled"
    assert server.context.waiters.waited_for() == []


async def test_an_end_that_nobody_announces_is_found(rig: Rig, server: ApiServer, client: httpx.AsyncClient) -> None:
    """Written to PostgreSQL alone, as by a sweep or while Redis is down: seen within about a second."""
    task_id = await submit(client)
    poll = await polling(server, client, task_id)
    async with rig.ledger.connection() as connection:
        await connection.execute("UPDATE task SET state = 'expired', finished_at = now() WHERE id = $1", UUID(task_id))
    began = monotonic()
    assert (await poll).json()["state"] == "expired"
    assert monotonic() - began < 5


async def test_an_end_between_question_and_waiting_is_not_missed(server: ApiServer, client: httpx.AsyncClient) -> None:
    """The task ends after its state was read and before anybody waits: the hint that comes then still counts."""
    task_id = UUID(await submit(client))
    waiters = server.context.waiters
    asked = 0

    async def has_ended() -> bool:
        nonlocal asked
        asked += 1
        if asked == 1:
            waiters.wake(task_id)
            return False
        return True

    began = monotonic()
    await waiters.wait(task_id, has_ended, seconds=20.0)
    assert asked == 2
    assert monotonic() - began < 5


async def test_a_long_poll_ends_with_its_time(client: httpx.AsyncClient) -> None:
    """The task is shown as it is; an ended or unknown one is not waited for; a wrong wait is refused."""
    task_id = await submit(client)
    answer = await client.get(f"/api/tasks/{task_id}?wait=0.05")
    assert (answer.status_code, answer.json()["state"]) == (200, "queued")
    await client.delete(f"/api/tasks/{task_id}")
    began = monotonic()
    assert (await client.get(f"/api/tasks/{task_id}?wait=20")).json()["state"] == "cancelled"
    problem(await client.get("/api/tasks/01890000-0000-7000-8000-000000000000?wait=20"), 404, "not_found")
    assert monotonic() - began < 5
    for wait in ("-1", "nan", "inf", "x"):
        problem(await client.get(f"/api/tasks/{task_id}?wait={wait}"), 422, "invalid_request", field="wait")


async def test_a_long_poll_waits_no_longer_than_the_limit(rig: Rig) -> None:
    """Whatever it asks for."""
    limited = rig.settings.model_copy(update={"api": SETTINGS.model_copy(update={"max_wait_seconds": 0.05})})
    server = ApiServer(rig.queue, rig.ledger, rig.blobs, limited)
    await server.start()
    url = f"http://127.0.0.1:{server.port}"
    async with httpx.AsyncClient(base_url=url, headers=bearer(rig.keys["acme"]), timeout=10.0) as client:
        assert (await client.get(f"/api/tasks/{await submit(client)}?wait=600")).json()["state"] == "queued"
    await server.stop()


async def test_long_polls_survive_a_loss_of_redis(rig: Rig, server: ApiServer, client: httpx.AsyncClient) -> None:
    """The subscription breaks; the end is seen all the same, and later ones by hint again."""
    task_id = await submit(client)
    poll = await polling(server, client, task_id)
    await rig.clients.commands.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
    [started] = await rig.begin()
    await rig.finish(started)
    assert (await poll).json()["state"] == "succeeded"
    assert (await client.get("/readyz")).status_code == 200


# Bodies -------------------------------------------------------------------------------------------------------------


FORM = b'--x\r\nContent-Disposition: form-data; name="image"; filename="x"\r\n\r\n'
"""What a form begins with that has a file; it matters only where a form is read."""


def body_of(size: int) -> bytes:
    """Return a body of this size."""
    return FORM + bytes(size - len(FORM))


async def streamed(size: int) -> AsyncIterator[bytes]:
    """Yield a body in chunks, so that it is sent without Content-Length."""
    body = body_of(size)
    for start in range(0, size, 65_536):
        yield body[start : start + 65_536]


async def test_a_body_past_its_limit_is_cut_off(rig: Rig, client: httpx.AsyncClient, subtests: pytest.Subtests) -> None:
    """With and without Content-Length, on every route; at the limit it is read."""
    routes = [
        ("POST", "/api/ocr/text", "application/json"),
        ("POST", "/api/ocr/image", "application/json"),
        ("POST", "/api/ocr/image", "multipart/form-data; boundary=x"),
        ("POST", "/text/handler", "application/json"),
        ("POST", "/calculate/handler", "application/json"),
        ("POST", "/calculate/handler", "multipart/form-data; boundary=x"),
        ("PUT", "/api/word-lists/mine", "application/json"),
        ("POST", "/api/tasks/batch", "application/x-ndjson"),
    ]
    for method, path, content_type in routes:
        limit = body_limit(method, path, rig.settings.api)
        headers = {"Content-Type": content_type}
        with subtests.test(path, content_type=content_type):
            told = await client.request(method, path, content=body_of(limit + 1), headers=headers)
            assert str(limit) in problem(told, 413, "too_large")["detail"]
            cut = await client.request(method, path, content=streamed(limit + 1), headers=headers)
            assert str(limit) in problem(cut, 413, "too_large")["detail"]
            read = await client.request(method, path, content=streamed(limit), headers=headers)
            assert read.status_code != 413
    assert body_limit("POST", "/api/other", rig.settings.api) == 65_536
    assert body_limit("PUT", "/api/word-lists/x", rig.settings.api) == WORD_LIST_BYTES
    assert await rig.rows() == []


async def test_an_endless_body_takes_no_memory(rig: Rig, server: ApiServer) -> None:
    """Past the limit nothing is kept: the answer comes while the sender is still sending."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    head = "POST /api/ocr/text HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
    writer.write(f"{head}Authorization: Bearer {rig.keys['acme']}\r\n\r\n".encode())
    chunk = b"100000\r\n" + bytes(0x100000) + b"\r\n"
    answer = asyncio.create_task(reader.readline())
    for _ in range(64):
        writer.write(chunk)
        await writer.drain()
        if answer.done():
            break
    assert b" 413 " in await answer
    writer.close()


async def test_a_body_declared_too_large_is_not_waited_for(rig: Rig, server: ApiServer) -> None:
    """The answer comes before a byte of it."""
    reader, writer = await send_text(rig, server, b"", length=10**12)
    assert b" 413 " in await asyncio.wait_for(reader.readline(), 10.0)
    writer.close()


async def test_a_whole_image_of_the_greatest_size_is_taken(rig: Rig, client: httpx.AsyncClient) -> None:
    """At the limit, through a real socket, by form."""
    data = png()
    data += bytes(rig.settings.api.max_image_bytes - len(data))
    answer = await client.post("/api/ocr/image", files={"image": ("x.png", data, "image/png")}, data={"mac": MAC})
    assert answer.status_code == 202, answer.text
    [row] = await rig.rows()
    assert await rig.blobs.get(row["blob"]) == data


async def test_a_caller_who_leaves_leaves_a_whole_task(rig: Rig, server: ApiServer) -> None:
    """The connection breaks while the row is being written: the task is committed and queued all the same."""
    state = server._served._server.server_state
    async with rig.ledger.transaction() as connection:
        await connection.execute("LOCK TABLE task IN SHARE MODE")
        _, writer = await send_text(rig, server, json.dumps(text()).encode())

        async def held_up() -> bool:
            return bool(await connection.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"))

        await wait_until(held_up, "the insert waits")
        writer.close()
        await wait_until(lambda: not state.connections, "the server has seen its caller leave")
        assert await rig.pending() == 0

    async def whole() -> bool:
        return len(await rig.rows()) == 1 == await rig.pending()

    await wait_until(whole, "the task is committed and queued")


async def test_a_caller_who_leaves_amid_the_body_leaves_nothing(rig: Rig, server: ApiServer) -> None:
    """Neither a task nor an error in the log."""
    with structlog.testing.capture_logs() as logged:
        _, writer = await send_text(rig, server, b"{", length=100)
        tasks = server._served._server.server_state.tasks
        await wait_until(lambda: len(tasks) == 1, "the request is under way")
        writer.close()
        await wait_until(lambda: not tasks, "the request is over")
    assert not [line for line in logged if line["log_level"] in {"warning", "error"}]
    assert await rig.rows() == []


async def send_text(
    rig: Rig, server: ApiServer, body: bytes, *, length: int | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send a request by hand; ``length`` promises more than comes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    lines = (
        "POST /api/ocr/text HTTP/1.1",
        "Host: x",
        "Content-Type: application/json",
        f"Content-Length: {length or len(body)}",
        f"Authorization: Bearer {rig.keys['acme']}",
    )
    writer.write("\r\n".join([*lines, "", ""]).encode() + body)
    await writer.drain()
    return reader, writer


# Strangers ------------------------------------------------------------------------------------------------------------


async def flood(server: ApiServer, beginning: bytes, piece: bytes, *, most: int) -> bytes:
    """Send a beginning and then a piece over and over, until the server ends it; return what it said.

    Raises:
        AssertionError: it took more than ``most`` bytes.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    answer = asyncio.create_task(reader.read())
    writer.write(beginning)
    sent = 0
    while not answer.done():
        assert sent <= most, "the server reads for ever"
        writer.write(piece)
        sent += len(piece)
        # One that is closing says so by an exception, or no more by anything.
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        await asyncio.sleep(0)
    writer.close()
    with contextlib.suppress(ConnectionError):
        return await answer
    return b""


async def test_a_head_without_end_is_cut_off(server: ApiServer, subtests: pytest.Subtests) -> None:
    """One endless line, or endless lines, of head, of chunk sizes, of trailers: closed long before they cost memory."""
    begun = b"POST /api/ocr/text HTTP/1.1\r\nHost: x\r\n"
    chunked = begun + b"Transfer-Encoding: chunked\r\n\r\n"
    floods = {
        "url": (b"GET /", b"x" * 10_000),
        "line": (begun + b"X: ", b"x" * 10_000),
        "lines": (begun, b"X: y\r\n" * 1000),
        "chunk extension": (chunked + b"1;", b"x" * 10_000),
        "trailers": (chunked + b"0\r\n", b"X: y\r\n" * 1000),
    }
    for name, (beginning, piece) in floods.items():
        with subtests.test(name):
            said = await flood(server, beginning, piece, most=20_000_000)
            assert b" 202 " not in said
    async with httpx.AsyncClient() as client:
        url = f"http://127.0.0.1:{server.port}/livez"
        assert (await client.get(url, headers={"X": "y" * 40_000})).status_code == 200
        assert (await client.get(url, headers={"X": "y" * 400_000})).status_code == 431


async def test_a_refused_body_is_not_read_for_ever(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sender gets to read the refusal, and is cut off if he goes on and on."""
    monkeypatch.setattr("detectsched.api.protocol.MOST_DISCARDED_BYTES", 1_000_000)
    head = b"POST /api/ocr/text HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000000\r\n\r\n"
    said = await flood(server, head, bytes(100_000), most=50_000_000)
    assert said == b"" or b" 401 " in said


async def test_a_head_that_never_comes_is_not_waited_for(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither on a new connection, nor half-way, nor after an answer; an upload that takes longer is left alone."""
    monkeypatch.setattr("detectsched.api.protocol.HEAD_SECONDS", 0.2)
    server = ApiServer(rig.queue, rig.ledger, rig.blobs, rig.settings)
    await server.start()
    request = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
    reader, writer = await send_text(rig, server, b'{"mac"', length=len(json.dumps(text())))
    for beginning in (b"", b"GET /", request, request + b"\r\n"):
        idle, other = await asyncio.open_connection("127.0.0.1", server.port)
        other.write(beginning)
        if beginning.startswith(request):
            await idle.readuntil(b"}")
            other.write(b"G")
        assert await asyncio.wait_for(idle.read(), 10.0) == b""
        other.close()
    writer.write(json.dumps(text()).encode()[len(b'{"mac"') :])
    assert b" 202 " in await reader.readline()
    writer.close()
    await server.stop()


# Starting and stopping ----------------------------------------------------------------------------------------------


async def test_a_stop_sends_long_polls_home_and_lets_requests_end(rig: Rig, server: ApiServer) -> None:
    """Twenty open long-polls are answered with their task at once, and the server is gone well within its grace."""
    url = f"http://127.0.0.1:{server.port}"
    async with AsyncExitStack() as stack:
        connect = httpx.AsyncClient(base_url=url, headers=bearer(rig.keys["acme"]), timeout=20.0)
        client = await stack.enter_async_context(connect)
        task_id = await submit(client)
        polls = [await polling(server, client, task_id) for _ in range(20)]
        began = monotonic()
        await server.stop()
        assert monotonic() - began < 10
        assert {(await poll).json()["state"] for poll in polls} == {"queued"}
        with pytest.raises(httpx.ConnectError):
            await client.get("/livez")


async def test_a_stop_waits_no_longer_than_the_grace(rig: Rig) -> None:
    """An upload that never ends is cut off with a 503 when the grace is over."""
    hasty = rig.settings.model_copy(update={"api": SETTINGS.model_copy(update={"grace_seconds": 0.5})})
    server = ApiServer(rig.queue, rig.ledger, rig.blobs, hasty)
    await server.start()
    reader, writer = await send_text(rig, server, b"{", length=100)
    tasks = server._served._server.server_state.tasks
    await wait_until(lambda: len(tasks) == 1, "the request is under way")
    began = monotonic()
    await server.stop()
    assert 0.5 <= monotonic() - began < 10
    answer = await reader.read()
    assert b" 503 " in answer.partition(b"\r\n")[0]
    assert b'"code":"unavailable"' in answer
    writer.close()


async def test_a_started_server_answers_and_a_stopped_one_does_not(rig: Rig) -> None:
    """The contract of every service, on a real socket."""
    settings = rig.settings.model_copy(update={"api": SETTINGS.model_copy(update={"port": free_port()})})
    server = ApiServer(rig.queue, rig.ledger, rig.blobs, settings)

    def listens() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", settings.api.port)) == 0

    await check_service_contract(server, listens, rounds=3)


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


async def test_a_port_in_use_is_told(rig: Rig, server: ApiServer) -> None:
    """Which one, and what to change; the first server goes on."""
    settings = rig.settings.model_copy(update={"api": SETTINGS.model_copy(update={"port": server.port})})
    second = ApiServer(rig.queue, rig.ledger, rig.blobs, settings)
    with pytest.raises(ConfigurationError, match=f"{server.port}.*DETECTSCHED_API_PORT"):
        await second.start()
    await second.stop()
    async with httpx.AsyncClient() as client:
        assert (await client.get(f"http://127.0.0.1:{server.port}/livez")).status_code == 200


async def test_a_dead_loop_ends_the_service(rig: Rig, server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug in what is behind the routes is told to whoever runs the service."""

    async def broken(*_: Any) -> Any:
        raise RuntimeError("a bug")

    monkeypatch.setattr("detectsched.api.waiters.ended_among", broken)
    async with httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{server.port}", headers=bearer(rig.keys["acme"]), timeout=20.0
    ) as client:
        poll = await polling(server, client, await submit(client))
        with pytest.raises(RuntimeError, match="a bug"):
            await asyncio.wait_for(server.wait(), 10.0)
        await server.stop()
        assert (await poll).status_code == 200
