"""The models and the migrations describe the same tables."""

from __future__ import annotations

import asyncio
from typing import Any

from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from pydantic import SecretStr
from sqlalchemy import Connection
from sqlmodel import SQLModel

from detectsched.db import migrate
from detectsched.db.connection import make_engine
from detectsched.settings import PostgresSettings
from tests.support.databases import Databases


async def test_models_equal_the_migrated_schema(postgres_url: str) -> None:
    """Alembic finds nothing to change between SQLModel's tables and what the migrations made."""

    def differences(connection: Connection) -> list[Any]:
        return list(compare_metadata(MigrationContext.configure(connection), SQLModel.metadata))

    engine = make_engine(PostgresSettings(url=SecretStr(postgres_url)))
    async with engine.connect() as connection:
        assert await connection.run_sync(differences) == []
    await engine.dispose()


async def test_upgrading_twice_and_at_once_is_safe(databases: Databases, postgres_url: str) -> None:
    """Four processes that start together on one database all find it migrated."""
    settings = PostgresSettings(url=SecretStr(postgres_url))
    heads = await asyncio.gather(*(migrate.upgrade(settings) for _ in range(4)))
    assert set(heads) == {migrate.head_revision()}
    assert await migrate.current_revision(settings) == migrate.head_revision()
