"""Runs the migrations: on the connection that db.migrate hands over, or, for the alembic command, on one of its own."""

from __future__ import annotations

import asyncio

from sqlalchemy import Connection
from sqlmodel import SQLModel

from alembic import context
from detectsched.db import models  # noqa: F401 - fills SQLModel.metadata
from detectsched.db.connection import make_engine
from detectsched.settings import load_settings


def run(connection: Connection) -> None:
    """Run the migrations on an open connection."""
    context.configure(connection=connection, target_metadata=SQLModel.metadata, compare_type=True)
    with context.begin_transaction():
        context.run_migrations()


async def run_alone() -> None:
    """Run them for ``alembic upgrade head`` on the database that DETECTSCHED_POSTGRES_URL names."""
    engine = make_engine(load_settings().postgres)
    async with engine.connect() as connection:
        await connection.run_sync(run)
        await connection.commit()
    await engine.dispose()


given = context.config.attributes.get("connection")
if given is not None:
    run(given)
else:
    asyncio.run(run_alone())
