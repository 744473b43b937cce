"""Bringing the schema up: from several places at once, and beside somebody who holds a table (bug report 80)."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest
from pydantic import SecretStr

from detectsched.db import migrate
from detectsched.embedded.servers import EmbeddedPostgres
from detectsched.errors import StoreUnavailable
from detectsched.settings import PostgresSettings


@pytest.fixture
async def empty(postgres_server: EmbeddedPostgres) -> PostgresSettings:
    """Give an empty database."""
    connection = await asyncpg.connect(postgres_server.url_of("postgres"))
    await connection.execute("DROP DATABASE IF EXISTS to_migrate WITH (FORCE)")
    await connection.execute("CREATE DATABASE to_migrate")
    await connection.close()
    return PostgresSettings(url=SecretStr(postgres_server.url_of("to_migrate")))


async def test_four_may_upgrade_at_once(empty: PostgresSettings) -> None:
    """The first does it, the others find it done."""
    head = migrate.head_revision()
    assert await asyncio.gather(*(migrate.upgrade(empty) for _ in range(4))) == [head] * 4
    assert await migrate.check(empty) == head


async def test_a_migration_does_not_queue_for_a_table(empty: PostgresSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a migration that waits, everybody else would wait as well: it gives up, and is tried again."""
    monkeypatch.setattr(migrate, "_LOCK_TIMEOUT_SECONDS", 1)
    await migrate.upgrade(empty, "0003")
    holder = await asyncpg.connect(empty.url.get_secret_value())
    transaction = holder.transaction()
    await transaction.start()
    await holder.execute("LOCK TABLE task IN ACCESS SHARE MODE")
    with pytest.raises(StoreUnavailable):
        await migrate.upgrade(empty)
    await transaction.rollback()
    await holder.close()
    assert await migrate.upgrade(empty) == migrate.head_revision()
