"""What every daemon's process does around its services: settings, logs, stores, an orderly end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import uvloop

from detectsched import failpoints
from detectsched.db import migrate
from detectsched.db.connection import Ledger
from detectsched.errors import StoreUnavailable
from detectsched.lifecycle import Service, run_services
from detectsched.queueing.connection import RedisClients
from detectsched.queueing.fitness import require_fit
from detectsched.queueing.queue import Queue
from detectsched.settings import Settings, load_settings
from detectsched.storage.blobs import BlobStore, open_blobs
from detectsched.telemetry import configure_logging, get_logger

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Stores:
    """The stores of one process, open."""

    settings: Settings
    queue: Queue
    ledger: Ledger
    blobs: BlobStore


def run_daemon(component: str, build: Callable[[Stores], Sequence[Service]], **overrides: dict[str, Any]) -> int:
    """Run a daemon until it is told to stop; return its exit status.

    Args:
        component: its name in logs and connection lists.
        build: makes its services, in the order in which they start.
        overrides: per settings group, the values that command-line options give.

    Raises:
        ConfigurationError: settings, schema or installation are wrong.
    """
    settings = settings_with(overrides)
    configure_logging(settings.log, component)
    failpoints.arm(settings.failpoints)
    if settings.failpoints:
        log.warning("failpoints are armed: this process is made to fail", failpoints=settings.failpoints)
    return uvloop.run(_run(component, settings, build))


def settings_with(overrides: dict[str, dict[str, Any]]) -> Settings:
    """Read the settings; an option that was given wins over the environment, one that is None does not."""
    settings = load_settings()
    changed = {
        group: getattr(settings, group).model_copy(update=given)
        for group, values in overrides.items()
        if (given := {name: value for name, value in values.items() if value is not None})
    }
    return load_settings(**{group: model.model_dump() for group, model in changed.items()}) if changed else settings


async def _run(component: str, settings: Settings, build: Callable[[Stores], Sequence[Service]]) -> int:
    await _wait_for_schema(settings)
    clients = RedisClients(settings.redis, name=component)
    ledger = Ledger(settings.postgres, settings.encryption)
    blobs = open_blobs(settings.blobs)
    try:
        await require_fit(clients)
        services = build(Stores(settings, Queue(clients, settings), ledger, blobs))
        return await run_services(services, ready=lambda: log.info("started"))
    finally:
        await clients.close()
        await ledger.close()
        await blobs.close()


async def _wait_for_schema(settings: Settings) -> None:
    """Wait for PostgreSQL, which may start after us, and refuse a schema that is behind."""
    failures = 0
    while True:
        try:
            await migrate.check(settings.postgres)
        except StoreUnavailable as error:
            if failures == 0:
                log.warning("waiting for PostgreSQL", error=error.detail)
            failures += 1
            await asyncio.sleep(random.uniform(0.1, min(5.0, 0.2 * 2 ** min(failures, 6))))  # noqa: S311
        else:
            return
