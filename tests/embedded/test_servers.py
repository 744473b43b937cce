"""Embedded Valkey and PostgreSQL: data kept, crashes healed, mistakes explained."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
from asyncio import create_subprocess_exec
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import psutil
import pytest
import redis.asyncio

from detectsched.embedded import binaries, places
from detectsched.embedded.leftovers import end_leftovers
from detectsched.embedded.servers import EmbeddedPostgres, EmbeddedServer, EmbeddedValkey
from detectsched.errors import ConfigurationError, StoreUnavailable
from tests.support.waiting import wait_until

KINDS = ["valkey", "postgres"]


def make(kind: str, data: Path, port: int | None = None) -> EmbeddedServer:
    """Return a durable server on a directory."""
    return EmbeddedValkey(data / kind, port=port) if kind == "valkey" else EmbeddedPostgres(data / kind, port=port)


async def remember(server: EmbeddedServer, value: int) -> None:
    """Write something."""
    if isinstance(server, EmbeddedValkey):
        async with redis.asyncio.from_url(server.url) as client:
            await client.rpush("remembered", value)
        return
    connection = await asyncpg.connect(server.url)
    try:
        await connection.execute("CREATE TABLE IF NOT EXISTS remembered (value int)")
        await connection.execute("INSERT INTO remembered VALUES ($1)", value)
    finally:
        await connection.close()


async def recall(server: EmbeddedServer) -> list[int]:
    """Read what was written."""
    if isinstance(server, EmbeddedValkey):
        async with redis.asyncio.from_url(server.url) as client:
            return [int(value) for value in await client.lrange("remembered", 0, -1)]
    connection = await asyncpg.connect(server.url)
    try:
        return [row["value"] for row in await connection.fetch("SELECT value FROM remembered ORDER BY value")]
    finally:
        await connection.close()


@pytest.fixture(params=KINDS)
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[EmbeddedServer]:
    """Give a server of each kind, not started; it is stopped afterwards."""
    server = make(request.param, tmp_path)
    yield server
    await server.stop()


async def test_data_is_found_again_after_a_stop_and_after_a_crash(server: EmbeddedServer) -> None:
    """Neither an orderly stop nor kill -9 loses what was acknowledged."""
    await server.start()
    await remember(server, 1)
    await server.stop()
    await server.start()
    await remember(server, 2)
    await server.kill()
    await server.start()
    assert await recall(server) == [1, 2]


async def test_stop_leaves_no_process(server: EmbeddedServer) -> None:
    """All processes of the server are gone when stop returns."""
    await server.start()
    assert working_in(server.data)
    await server.stop()
    assert not working_in(server.data)


async def test_a_server_that_dies_is_reported(server: EmbeddedServer) -> None:
    """Wait raises and says which signal it was."""
    await server.start()
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    with pytest.raises(StoreUnavailable, match=f"{server.title} was ended by SIGKILL"):
        await server.wait()


async def test_it_dies_with_its_parent_and_the_next_start_finds_the_data(server: EmbeddedServer) -> None:
    """Kill -9 of whoever started it leaves nothing behind that the next start could stumble over."""
    script = (
        "import asyncio, sys\nfrom pathlib import Path\nfrom tests.embedded.test_servers import make, remember\n"
        "async def main():\n"
        "    server = make(sys.argv[1], Path(sys.argv[2]))\n"
        "    await server.start()\n    await remember(server, 7)\n    print(server.pid, flush=True)\n"
        "    await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    command = [sys.executable, "-c", script, server.data.name, str(server.data.parent)]
    parent = await create_subprocess_exec(*command, stdout=PIPE, cwd=Path(__file__).parents[2])
    assert parent.stdout is not None
    while not (line := await parent.stdout.readline()).strip().isdigit():
        assert line, "the program ended early"
    parent.kill()
    await parent.communicate()
    # At once: the old server may still be on its way out.
    await server.start()
    assert server.pid != int(line)
    assert await recall(server) == [7]
    await server.stop()
    assert not working_in(server.data)


async def test_leftovers_that_do_not_listen_are_killed(tmp_path: Path) -> None:
    """A stopped process (SIGSTOP) does not answer SIGTERM; it is killed after a while."""
    server = make("valkey", tmp_path)
    await server.start()
    assert server.pid is not None
    os.kill(server.pid, signal.SIGSTOP)
    assert await end_leftovers(server.data, signal.SIGTERM, patience_seconds=0.2) == 1
    assert not working_in(server.data)
    await server.stop()


async def test_a_pid_file_that_names_somebody_else_is_no_obstacle(tmp_path: Path) -> None:
    """After a crash the process id in postmaster.pid may be anybody's; that process is left alone."""
    server = make("postgres", tmp_path)
    await server.start()
    await remember(server, 1)
    await server.kill()
    pidfile = server.data / "postmaster.pid"
    # Of the same user: PostgreSQL takes a process that it may not signal for none.
    bystander = await create_subprocess_exec("sleep", "60", stdout=DEVNULL, user=pidfile.stat().st_uid)
    _, *rest = pidfile.read_text().splitlines()
    pidfile.write_text("\n".join([str(bystander.pid), *rest]) + "\n")
    await server.start()
    assert await recall(server) == [1]
    assert bystander.returncode is None
    bystander.kill()
    await bystander.wait()
    await server.stop()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_port_in_use_is_explained(kind: str, tmp_path: Path) -> None:
    """The message names the port and what to do."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"port {port}: another program listens there .* stop it, or"):
            await make(kind, tmp_path, port).start()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_port_of_ones_own_choice_is_served(kind: str, tmp_path: Path) -> None:
    """With a port, the address is a TCP one."""
    server = make(kind, tmp_path, places.free_port())
    await server.start()
    assert f"127.0.0.1:{server.port}" in server.url
    await remember(server, 3)
    assert await recall(server) == [3]
    await server.stop()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_path_too_long_for_a_socket_is_no_obstacle(kind: str, tmp_path: Path) -> None:
    """The socket then lies in a short private directory."""
    server = make(kind, tmp_path / ("deep" * 30))
    await server.start()
    await remember(server, 5)
    assert await recall(server) == [5]
    directory = places.socket_directory(server.data, "valkey.sock")
    assert directory != server.data
    assert directory.stat().st_mode & 0o077 == 0
    await server.stop()
    shutil.rmtree(directory)


async def test_a_data_directory_of_another_version_is_explained(tmp_path: Path) -> None:
    """Nothing is touched, and the message says what to do."""
    server = make("postgres", tmp_path)
    server.data.mkdir()
    (server.data / "PG_VERSION").write_text("9\n")
    with pytest.raises(ConfigurationError, match=r"made by PostgreSQL 9, but PostgreSQL .* pg_dump"):
        await server.start()


async def test_a_server_that_cannot_start_is_quoted(tmp_path: Path) -> None:
    """The exception carries what the server said."""
    server = EmbeddedValkey(tmp_path / "valkey", options={"maxmemory": "much"})
    with pytest.raises(ConfigurationError, match=r"(?s)Valkey did not start .* exit status 1.*maxmemory"):
        await server.start()
    assert server.pid is None


async def test_a_first_start_that_was_broken_off_is_no_obstacle(tmp_path: Path) -> None:
    """What an interrupted initdb left is made anew."""
    server = make("postgres", tmp_path)
    starting = asyncio.create_task(server.start())
    making = tmp_path / "postgres.making"
    await wait_until((making / "PG_VERSION").exists, "initdb to be under way")
    starting.cancel()
    await asyncio.wait([starting])
    assert starting.cancelled()
    assert not (server.data / "PG_VERSION").exists()
    await server.start()
    await remember(server, 1)
    await server.stop()
    assert not making.exists()


async def test_a_directory_of_other_files_is_left_alone(tmp_path: Path) -> None:
    """Somebody's own files are neither removed nor closed to others."""
    server = make("postgres", tmp_path)
    server.data.mkdir(mode=0o755)
    (server.data / "thesis.txt").write_text("years of work")
    with pytest.raises(ConfigurationError, match="holds files, but no data of PostgreSQL: move them away"):
        await server.start()
    assert (server.data / "thesis.txt").read_text() == "years of work"
    assert server.data.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("find", ["valkey_binary", "postgres_binaries"])
def test_missing_packages_are_explained(find: str) -> None:
    """Without the extra, the message names it and the alternative."""
    source = Path(binaries.__file__).parents[2]
    script = (
        f"import sys; sys.path.append({str(source)!r}); from detectsched.embedded import binaries; binaries.{find}()"
    )
    # Neither site-packages nor anything of the environment.
    bare = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=False)
    assert "ConfigurationError: the embedded stores are not installed: install detectsched[embedded]" in bare.stderr
    assert "--redis-url" in bare.stderr


async def test_what_is_kept_is_kept_durably(tmp_path: Path) -> None:
    """Nothing is evicted, the journal is written, and commits reach the disk."""
    valkey = EmbeddedValkey(tmp_path / "valkey")
    await valkey.start()
    async with redis.asyncio.from_url(valkey.url, decode_responses=True) as client:
        settings = await client.config_get("maxmemory-policy", "appendonly", "appendfsync")
    await valkey.stop()
    assert settings == {"maxmemory-policy": "noeviction", "appendonly": "yes", "appendfsync": "everysec"}
    postgres = EmbeddedPostgres(tmp_path / "postgres")
    await postgres.start()
    connection = await asyncpg.connect(postgres.url)
    values = [await connection.fetchval(f"SHOW {name}") for name in ("fsync", "synchronous_commit", "server_encoding")]
    await connection.close()
    await postgres.stop()
    assert values == ["on", "on", "UTF8"]


@pytest.mark.skipif(os.getuid() != 0, reason="only root has to become somebody else")
async def test_started_by_root_in_a_private_directory_postgres_is_not_root_and_opens_nothing(tmp_path: Path) -> None:
    """PostgreSQL works under another user below a directory that user may not enter, whose mode stays as it was."""
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    server = make("postgres", private)
    await server.start()
    assert server.pid is not None
    assert psutil.Process(server.pid).uids().effective != 0
    await server.stop()
    assert private.stat().st_mode & 0o777 == 0o700
    await server.start()
    await server.stop()


def working_in(data: Path) -> list[int]:
    """Return the processes whose working directory is ``data``, zombies aside."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.cwd() == str(data) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


async def test_waiting_for_a_server_that_was_stopped_does_not_hang(server: EmbeddedServer) -> None:
    """Not started: there is nothing to wait for."""
    await wait_until(lambda: server.pid is None, "no process")
    await server.wait()
