"""Valkey and PostgreSQL as child processes, from binaries that Python packages carry.

Both listen on a Unix socket by default: no port to clash, and the file's permissions are the authentication. Both keep
their data in the directory given, find it again at the next start, and heal what a kill -9 left behind. Whoever starts
one on a directory that others may also use holds a lock on it first (`supervisor.DataLock`).
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import quote

import asyncpg
import redis.asyncio
import redis.exceptions

from detectsched.clock import monotonic
from detectsched.embedded import binaries, places
from detectsched.embedded.leftovers import end_leftovers
from detectsched.embedded.process import Child, RunAs
from detectsched.errors import ConfigurationError, StoreUnavailable
from detectsched.lifecycle import Service
from detectsched.telemetry import get_logger

log = get_logger(__name__)

_START_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 20.0
_POLL_SECONDS: Final = 0.01


class EmbeddedServer(Service):
    """What both have in common: heal, spawn, wait until it answers; later a clean stop.

    Args:
        data: directory of its own; made when missing.
        durable: False for tests: nothing is forced to disk.
        port: also listen on this port of 127.0.0.1, without a password; None: only on the socket.

    Raises:
        ConfigurationError: (from `start`) the package is missing, the port is taken, the data is foreign, or the
            server gave up; the message quotes its last words.
    """

    title: str
    stop_signal: signal.Signals

    def __init__(self, data: Path, *, durable: bool = True, port: int | None = None) -> None:
        self.data = data.resolve()
        self.durable = durable
        self.port = port
        self._changing = asyncio.Lock()
        self._child: Child | None = None

    @property
    @abstractmethod
    def url(self) -> str:
        """Where it listens; known before it is started."""

    @property
    def pid(self) -> int | None:
        """Its process id while it runs."""
        return self._child.pid if self._child and self._child.status is None else None

    async def start(self) -> None:
        """Start it and return when it answers."""
        async with self._changing:
            if self._child is not None:
                return
            if self.port is not None:
                places.ensure_port_is_free("127.0.0.1", self.port, f"{self.title} cannot listen")
            self.data.mkdir(parents=True, exist_ok=True, mode=0o700)
            run_as = await self._prepare()
            begun = monotonic()
            logfile = places.LogFile(self.data.with_name(self.data.name + ".log"))
            child = self._child = Child(
                self.title,
                self._command(),
                environment={**os.environ, "LC_ALL": "C.UTF-8", "TZ": "UTC"},
                on_line=logfile.write,
                cwd=self.data,
                death_signal=self.stop_signal,
                run_as=run_as,
            )
            try:
                await self._wait_until_ready(child)
                await self._ready()
            except BaseException:
                await child.stop(self.stop_signal, _STOP_SECONDS)
                self._child = None
                raise
            log.info("store started", store=self.title, seconds=round(monotonic() - begun, 2), url=self.url)

    async def stop(self) -> None:
        """Stop it cleanly; its data is complete on disk when this returns."""
        async with self._changing:
            child, self._child = self._child, None
            if child is not None:
                await child.stop(self.stop_signal, _STOP_SECONDS)

    async def kill(self) -> None:
        """End it as a crash would (for tests of recovery)."""
        async with self._changing:
            child, self._child = self._child, None
            if child is not None:
                await child.stop(signal.SIGKILL, _STOP_SECONDS)

    async def wait(self) -> None:
        """Raise when it has died by itself; return when it was stopped."""
        if (child := self._child) is None:
            return
        await child.ended.wait()
        if self._child is child:
            raise StoreUnavailable(child.describe_end())

    async def _prepare(self) -> RunAs | None:
        """Heal and create what must be there before the server starts; say whom to run it as."""
        return None

    @abstractmethod
    def _command(self) -> Sequence[str]:
        """Return the command line."""

    @abstractmethod
    async def _answers(self, child: Child) -> bool:
        """Say whether it serves."""

    async def _ready(self) -> None:
        """Do what is to be done once it answers."""

    async def _wait_until_ready(self, child: Child) -> None:
        deadline = monotonic() + _START_SECONDS
        while not await self._answers(child):
            if child.ended.is_set():
                raise ConfigurationError(f"{self.title} did not start on {self.data}: {child.describe_end()}")
            if monotonic() > deadline:
                raise ConfigurationError(f"{self.title} on {self.data} does not answer after {_START_SECONDS:.0f} s")
            await asyncio.sleep(_POLL_SECONDS)


class EmbeddedValkey(EmbeddedServer):
    """Valkey, or with ``binary`` any Redis 7 and later; ``options`` are further lines of its configuration."""

    title = "Valkey"
    stop_signal = signal.SIGTERM

    def __init__(
        self,
        data: Path,
        *,
        durable: bool = True,
        port: int | None = None,
        binary: Path | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(data, durable=durable, port=port)
        self._binary = binary
        self._options = dict(options or {})
        self._socket = places.socket_directory(self.data, "valkey.sock") / "valkey.sock"

    @property
    def url(self) -> str:
        """``unix://PATH?db=0`` or, with a port, ``redis://127.0.0.1:PORT/0``."""
        return (
            f"redis://127.0.0.1:{self.port}/0" if self.port is not None else f"unix://{quote(str(self._socket))}?db=0"
        )

    async def _prepare(self) -> None:
        # Two servers that append to one file would ruin it.
        await end_leftovers(self.data, self.stop_signal)
        places.make_private(self._socket.parent)

    def _command(self) -> Sequence[str]:
        options = {
            "port": str(self.port or 0),
            "bind": "127.0.0.1",
            "unixsocket": str(self._socket),
            "unixsocketperm": "700",
            "pidfile": str(self.data / "valkey.pid"),
            "dir": str(self.data),
            # An evicted stream or counter would be a lost task.
            "maxmemory-policy": "noeviction",
            "save": "",
            "appendonly": "yes" if self.durable else "no",
            "appendfsync": "everysec",
            "daemonize": "no",
            **self._options,
        }
        binary = self._binary or binaries.valkey_binary()
        return [str(binary), *(word for name, value in options.items() for word in (f"--{name}", value))]

    async def _answers(self, child: Child) -> bool:
        # A second instance or an old one must not be taken for ours, hence the comparison of process ids.
        try:
            async with redis.asyncio.from_url(self.url, socket_timeout=1.0, socket_connect_timeout=1.0) as client:
                information = await client.info("server")
                persistence = await client.info("persistence")
        except (redis.exceptions.RedisError, OSError):
            return False
        return int(information["process_id"]) == child.pid and not int(persistence["loading"])


class EmbeddedPostgres(EmbeddedServer):
    """PostgreSQL with one database of the name given; ``binary_directory`` holds ``initdb`` and ``postgres``.

    PostgreSQL refuses to run as root. Started by root it runs as the owner of its data, on the first start ``postgres``
    where that user exists, else ``nobody``.
    """

    title = "PostgreSQL"
    # Fast shutdown: ends sessions and writes a checkpoint.
    stop_signal = signal.SIGINT

    def __init__(
        self,
        data: Path,
        *,
        durable: bool = True,
        port: int | None = None,
        binary_directory: Path | None = None,
        database: str = "detectsched",
        options: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(data, durable=durable, port=port)
        self._binary_directory = binary_directory
        self._options = dict(options or {})
        self.database = database
        self._sockets = places.socket_directory(self.data, ".s.PGSQL.5432.lock")
        self._pidfile = self.data / "postmaster.pid"

    @property
    def url(self) -> str:
        """``postgresql://postgres@/DATABASE?host=DIRECTORY``, or with a port ``…@127.0.0.1:PORT/DATABASE``."""
        return self.url_of(self.database)

    def url_of(self, database: str) -> str:
        """Return the address of another database of this server."""
        if self.port is not None:
            return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"
        return f"postgresql://postgres@/{database}?host={quote(str(self._sockets), safe='')}"

    @property
    def _binaries(self) -> Path:
        return self._binary_directory or binaries.postgres_binaries()

    async def _prepare(self) -> RunAs | None:
        run_as = places.who_runs_postgres(self.data, self._binaries / "postgres")
        places.ensure_ours(self.data, run_as)
        await end_leftovers(self.data, self.stop_signal)
        version = self.data / "PG_VERSION"
        if version.exists():
            self._check_version(version.read_text().strip())
        else:
            await self._initialise(run_as)
        for directory in (self.data, self._sockets):
            places.make_private(directory, run_as)
        # They name the process id of the dead server, which may be anybody's by now; PostgreSQL would not start.
        self._pidfile.unlink(missing_ok=True)
        (self._sockets / ".s.PGSQL.5432.lock").unlink(missing_ok=True)
        return run_as

    def _check_version(self, found: str) -> None:
        expected = binaries.postgres_version(self._binaries)
        if found != str(expected):
            raise ConfigurationError(
                f"the data in {self.data} was made by PostgreSQL {found}, but PostgreSQL {expected} is installed: "
                "move the data with pg_dump of the old version, or start with another data directory"
            )

    async def _initialise(self, run_as: RunAs | None) -> None:
        if any(self.data.iterdir()):
            raise ConfigurationError(
                f"{self.data} holds files, but no data of PostgreSQL: move them away, or start with other data"
            )
        # Made beside it and moved into place, so that a start that is broken off leaves nothing half.
        making = self.data.with_name(self.data.name + ".making")
        shutil.rmtree(making, ignore_errors=True)
        places.make_private(making, run_as)
        child = Child(
            "initdb",
            [str(self._binaries / "initdb"), f"--pgdata={making}", *self._initdb_options()],
            environment={**os.environ, "LC_ALL": "C.UTF-8", "TZ": "UTC"},
            on_line=lambda _: None,
            cwd=making,
            run_as=run_as,
        )
        try:
            await child.ended.wait()
        except BaseException:
            await child.stop(signal.SIGKILL, 0)
            raise
        if child.status != 0:
            raise ConfigurationError(f"PostgreSQL could not make its data in {making}: {child.describe_end()}")
        making.rename(self.data)

    def _initdb_options(self) -> Sequence[str]:
        builtin = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
        locale = builtin if binaries.postgres_version(self._binaries) >= 17 else ["--locale=C.UTF-8"]
        sync = [] if self.durable else ["--no-sync"]
        return ["--username=postgres", "--auth=trust", "--encoding=UTF8", *locale, *sync]

    def _command(self) -> Sequence[str]:
        options = {
            "listen_addresses": "127.0.0.1" if self.port is not None else "",
            "port": str(self.port or 5432),
            "unix_socket_directories": str(self._sockets),
            "unix_socket_permissions": "0700",
            "max_connections": "200",
            # Nobody replicates an embedded server.
            "wal_level": "minimal",
            "max_wal_senders": "0",
            "log_timezone": "UTC",
            "timezone": "UTC",
            **({} if self.durable else {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}),
            **self._options,
        }
        settings = (word for name, value in options.items() for word in ("-c", f"{name}={value}"))
        return [str(self._binaries / "postgres"), "-D", str(self.data), *settings]

    async def _answers(self, child: Child) -> bool:
        try:
            lines = self._pidfile.read_text().splitlines()
        except OSError:
            return False
        return len(lines) >= 8 and lines[0].strip() == str(child.pid) and lines[7].strip() == "ready"

    async def _ready(self) -> None:
        connection = await asyncpg.connect(self.url_of("postgres"))
        try:
            if not await connection.fetchval("SELECT true FROM pg_database WHERE datname = $1", self.database):
                await connection.execute(f'CREATE DATABASE "{self.database}"')
        finally:
            await connection.close()
