"""Which processes one machine runs, and with which settings."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import httpx

from detectsched.embedded.console import Console
from detectsched.embedded.servers import EmbeddedPostgres, EmbeddedServer, EmbeddedValkey
from detectsched.embedded.supervisor import Patience, Supervised
from detectsched.settings import LogFormat, Settings

# A stop "within seconds", also while an image is being read; what is not finished is given back.
_RUNNER_GRACE_SECONDS: Final = 10.0
# What a process needs beyond its own grace to close its connections.
_MARGIN_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Stores:
    """Where the data lives, and the servers to run for it."""

    redis_url: str
    postgres_url: str
    servers: list[EmbeddedServer] = field(default_factory=list)


def choose_stores(settings: Settings, data: Path, redis_url: str | None, postgres_url: str | None) -> Stores:
    """Take the stores of the command line, else those of the environment, else embedded ones."""
    if redis_url is None and "url" in settings.redis.model_fields_set:
        redis_url = settings.redis.url.get_secret_value()
    if postgres_url is None and "url" in settings.postgres.model_fields_set:
        postgres_url = settings.postgres.url.get_secret_value()
    servers: list[EmbeddedServer] = []
    if redis_url is None:
        valkey = EmbeddedValkey(data / "valkey")
        servers.append(valkey)
        redis_url = valkey.url
    if postgres_url is None:
        postgres = EmbeddedPostgres(data / "postgres")
        servers.append(postgres)
        postgres_url = postgres.url
    return Stores(redis_url, postgres_url, servers)


@dataclass(frozen=True, slots=True)
class Fleet:
    """The processes that use the stores."""

    api: Supervised
    dispatcher: Supervised
    runners: list[Supervised]

    def pids(self) -> dict[str, int]:
        """Return the ids of those that run now, by name."""
        return {process.name: process.pid for process in self._all() if process.pid is not None}

    def _all(self) -> Iterator[Supervised]:
        yield self.api
        yield self.dispatcher
        yield from self.runners


def make_fleet(
    environment: Mapping[str, str],
    settings: Settings,
    console: Console,
    patience: Patience,
    *,
    api_url: str,
    runners: Mapping[str, int],
) -> Fleet:
    """Put the processes together; none is started.

    Args:
        environment: theirs, from `child_environment`.
        settings: what that environment says.
        console: takes their output.
        patience: with those that die.
        api_url: where the API will answer.
        runners: how many for each lane.
    """

    def process(
        name: str, *arguments: str, grace: float, ready: Callable[[], Awaitable[bool]] | None = None
    ) -> Supervised:
        command = [sys.executable, "-m", "detectsched", *arguments]
        return Supervised(
            name,
            command,
            environment=environment,
            console=console,
            ready=ready,
            grace=grace + _MARGIN_SECONDS,
            patience=patience,
        )

    grace = float(environment["DETECTSCHED_RUNNER_GRACE_SECONDS"])
    return Fleet(
        process("api", "api", grace=settings.api.grace_seconds, ready=partial(_is_ready, api_url)),
        process("dispatcher", "dispatcher", grace=0.0),
        [
            process(lane if count == 1 else f"{lane}-{number}", "runner", "--lane", lane, grace=grace)
            for lane, count in runners.items()
            for number in range(1, count + 1)
        ],
    )


async def _is_ready(api_url: str) -> bool:
    try:
        # A proxy of the environment is not for our own loopback.
        async with httpx.AsyncClient(trust_env=False, timeout=2.0) as client:
            return (await client.get(f"{api_url}/readyz")).status_code == 200
    except httpx.HTTPError:
        return False


def child_environment(
    settings: Settings, stores: Stores, data: Path, *, host: str, port: int, environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return the environment of the processes: ours, and what we decided."""
    decided = {
        "DETECTSCHED_REDIS_URL": stores.redis_url,
        "DETECTSCHED_POSTGRES_URL": stores.postgres_url,
        "DETECTSCHED_API_HOST": host,
        "DETECTSCHED_API_PORT": str(port),
        "PYTHONUNBUFFERED": "1",
    }
    if settings.log.format is LogFormat.AUTO:
        decided["DETECTSCHED_LOG_FORMAT"] = LogFormat.CONSOLE.value
    if "url" not in settings.blobs.model_fields_set:
        decided["DETECTSCHED_BLOBS_URL"] = f"file:{data / 'blobs'}"
    if "grace_seconds" not in settings.runner.model_fields_set:
        decided["DETECTSCHED_RUNNER_GRACE_SECONDS"] = str(_RUNNER_GRACE_SECONDS)
    if "cpu_high_percent" not in settings.runner.model_fields_set:
        # To each runner the others of this machine are foreign load: reading images would push back the texts.
        decided["DETECTSCHED_RUNNER_CPU_HIGH_PERCENT"] = "100"
    return {**environment, **decided}
