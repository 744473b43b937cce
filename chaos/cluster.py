"""The system under test: two stores of its own, an API, dispatchers and runners, each behind links of its own."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

import asyncpg
import redis.asyncio
from pydantic import SecretStr

from chaos.history import INSTALL
from chaos.processes import Daemon
from chaos.proxy import Connect, Proxy
from detectsched.clock import monotonic
from detectsched.db import migrate
from detectsched.db.api_keys import Scope, create_key
from detectsched.db.connection import Ledger
from detectsched.embedded.servers import EmbeddedPostgres, EmbeddedValkey
from detectsched.queueing.connection import Redis
from detectsched.settings import (
    ApiSettings,
    BlobSettings,
    LogSettings,
    PostgresSettings,
    RedisSettings,
    RunnerSettings,
    SchedulerSettings,
    Settings,
    WebhookSettings,
)

TENANTS: Final = ("acme", "globex")
SLOTS: Final = 2
QUANTUM: Final = 2
WEBHOOKS: Final = WebhookSettings(
    allow_http=True,
    allow_networks=("127.0.0.0/8",),
    ports=(),
    timeout_seconds=2.0,
    claim_seconds=4.0,
    backoff_base_seconds=0.2,
)
"""They may be on this machine, and a dead dispatcher's claims end soon."""
_PORTS: Final = (15_000, 32_000)
"""Below those that Linux gives to connections."""
_DETECTSCHED: Final = ("-m", "detectsched")


@dataclass(frozen=True, slots=True)
class Shape:
    """How many of each, and which binaries (None: the embedded ones)."""

    seed: int = 0
    dispatchers: int = 2
    runners: int = 4
    max_total_pending: int = 1000
    redis_binary: Path | None = None
    postgres_binaries: Path | None = None


@dataclass
class Links:
    """The two links of one process."""

    redis: Proxy
    postgres: Proxy

    def both(self) -> tuple[Proxy, Proxy]:
        """Return both."""
        return self.redis, self.postgres


@dataclass
class Cluster:
    """Made by `cluster`; everything in it may be broken by whoever holds it."""

    settings: Settings
    valkey: EmbeddedValkey
    postgres: EmbeddedPostgres
    seed: int
    keys: dict[str, str] = field(default_factory=dict)
    daemons: dict[str, Daemon] = field(default_factory=dict)
    links: dict[str, Links] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """Where the API listens."""
        return f"http://{self.settings.api.host}:{self.settings.api.port}"

    def of(self, kind: str) -> list[Daemon]:
        """Return the daemons of a kind: api, dispatcher, runner."""
        return [daemon for name, daemon in self.daemons.items() if name.partition("-")[0] == kind]

    async def add(self, name: str, arguments: Sequence[str], directory: Path) -> Daemon:
        """Put links and a daemon in place, not yet started."""
        links = Links(Proxy(connect_to(self.valkey.url)), Proxy(connect_to(self.postgres.url)))
        for proxy in links.both():
            await proxy.start()
        settings = self.settings.model_copy(
            update={
                "redis": self.settings.redis.model_copy(
                    update={"url": SecretStr(f"redis://127.0.0.1:{links.redis.port}/0")}
                ),
                "postgres": self.settings.postgres.model_copy(
                    update={
                        "url": SecretStr(
                            f"postgresql://postgres@127.0.0.1:{links.postgres.port}/{self.postgres.database}"
                        )
                    }
                ),
            }
        )
        self.links[name] = links
        self.daemons[name] = Daemon(name, arguments, settings, directory / f"{name}.log")
        return self.daemons[name]

    def redis(self, **options: Any) -> Redis:
        """Return a client of the store itself, past every link."""
        return redis.asyncio.from_url(self.valkey.url, **options)

    @asynccontextmanager
    async def sql(self) -> AsyncIterator[Any]:
        """Lend a connection to the ledger itself, past every link."""
        connection = await asyncpg.connect(self.postgres.url)
        try:
            yield connection
        finally:
            await connection.close()

    async def start(self, names: Sequence[str] = ()) -> None:
        """Start daemons, all by default, and wait until each says so."""
        for name in names or self.daemons:
            await self.daemons[name].start()
        for name in names or self.daemons:
            await self.wait_started(self.daemons[name])

    async def wait_started(self, daemon: Daemon, patience: float = 60.0) -> None:
        """Wait until a daemon has said that it has started."""
        deadline = monotonic() + patience
        while not daemon.started:
            if monotonic() > deadline or not daemon.pid:
                raise RuntimeError(f"{daemon.name} did not start; its words are in {daemon.log}")
            await asyncio.sleep(0.05)

    def heal(self) -> None:
        """Let every link pass and every process run."""
        for links in self.links.values():
            for proxy in links.both():
                proxy.heal()
        for daemon in self.daemons.values():
            daemon.resume()


def connect_to(url: str) -> Connect:
    """Return what connects to a store at the address of its socket, as embedded servers give it."""
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    path = unquote(parts.path) if parts.scheme == "unix" else f"{query['host'][0]}/.s.PGSQL.5432"
    return lambda: asyncio.open_unix_connection(path)


def settings_for(directory: Path, valkey: EmbeddedValkey, postgres: EmbeddedPostgres, shape: Shape) -> Settings:
    """Return settings with intervals short enough to meet everything within minutes."""
    return Settings(
        redis=RedisSettings(url=SecretStr(valkey.url), socket_timeout_seconds=2.0, connect_timeout_seconds=1.0),
        postgres=PostgresSettings(
            url=SecretStr(postgres.url),
            pool_size=4,
            read_pool_size=2,
            read_pool_overflow=2,
            pool_timeout_seconds=3.0,
            command_timeout_seconds=5.0,
        ),
        blobs=BlobSettings(url=f"file:{directory / 'blobs'}"),
        api=ApiSettings(
            port=_free_port(),
            grace_seconds=3.0,
            max_total_pending=shape.max_total_pending,
            retry_after_seconds=1,
            max_retry_after_seconds=1,
        ),
        scheduler=SchedulerSettings(
            lease_seconds=3.0,
            sweep_seconds=0.5,
            safety_tick_seconds=0.5,
            backoff_base_seconds=0.2,
            backoff_max_seconds=1.0,
            max_attempts=6,
            batch_size=QUANTUM,
            failure_threshold=0,
            max_defers=0,
            watermark_interval_seconds=1.0,
            watermark_ttl_seconds=4.0,
        ),
        runner=RunnerSettings(
            heartbeat_seconds=1.0,
            ttl_seconds=3.0,
            task_timeout_seconds=10.0,
            text_slots=SLOTS,
            ocr_slots=SLOTS,
            cpu_high_percent=100.0,
            memory_high_percent=100.0,
            grace_seconds=3.0,
        ),
        webhooks=WEBHOOKS,
        log=LogSettings(format="json"),
    )


def _free_port() -> int:
    """Return a free port that nobody is given by chance, also not between two lives of the API."""
    while True:
        port = random.randrange(*_PORTS)  # noqa: S311 - not a secret
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


@asynccontextmanager
async def cluster(directory: Path, shape: Shape) -> AsyncIterator[Cluster]:
    """Give a system with its schema, its history and a key per tenant; its daemons are not yet started."""
    valkey = EmbeddedValkey(directory / "valkey", binary=shape.redis_binary)
    # Nothing is forced to disk, but every commit is with the kernel before it is answered: kill -9 loses nothing.
    postgres = EmbeddedPostgres(
        directory / "postgres",
        durable=False,
        binary_directory=shape.postgres_binaries,
        options={"synchronous_commit": "on", "full_page_writes": "on"},
    )
    made = Cluster(settings_for(directory, valkey, postgres, shape), valkey, postgres, shape.seed)
    try:
        await asyncio.gather(valkey.start(), postgres.start())
        await _prepare(made)
        await made.add("api", [*_DETECTSCHED, "api"], directory)
        for number in range(1, shape.dispatchers + 1):
            await made.add(f"dispatcher-{number}", [*_DETECTSCHED, "dispatcher"], directory)
        for number in range(1, shape.runners + 1):
            await made.add(f"runner-{number}", ["-m", "chaos.runner", str(shape.seed), "ocr,text"], directory)
        yield made
    finally:
        made.heal()
        for daemon in made.daemons.values():
            await daemon.kill()
        for links in made.links.values():
            for proxy in links.both():
                await proxy.stop()
        await valkey.stop()
        await postgres.stop()


async def _prepare(made: Cluster) -> None:
    await migrate.upgrade(made.settings.postgres)
    async with made.sql() as connection:
        await connection.execute(INSTALL)
    ledger = Ledger(made.settings.postgres)
    try:
        for tenant in TENANTS:
            made.keys[tenant] = await create_key(ledger, tenant=tenant, name="chaos", scopes=list(Scope))
    finally:
        await ledger.close()
