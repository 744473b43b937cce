"""Brings the database to this release's schema; safe to start from several processes at once."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from alembic import command
from detectsched.db.connection import make_engine, translated
from detectsched.errors import ConfigurationError
from detectsched.settings import PostgresSettings

_LOCK_TIMEOUT_SECONDS: Final = 5
_LOCK: Final = 0x6465_7465_6374  # "detect"


def _config() -> Config:
    installed = Path(__file__).parent / "migrations"
    config = Config()
    source = installed if installed.is_dir() else Path(__file__).parents[3] / "alembic"
    config.set_main_option("script_location", str(source))
    return config


def head_revision() -> str:
    """Return the revision that this release expects."""
    head = ScriptDirectory.from_config(_config()).get_current_head()
    assert head is not None, "there is at least one migration"  # noqa: S101 - a packaging fault, not an input
    return head


async def current_revision(settings: PostgresSettings) -> str | None:
    """Return the revision that the database is at; None for an empty one."""
    engine = make_engine(settings)
    try:
        async with translated(), engine.connect() as connection:
            return await connection.run_sync(lambda sync: MigrationContext.configure(sync).get_current_revision())
    finally:
        await engine.dispose()


async def upgrade(settings: PostgresSettings, revision: str = "head") -> str:
    """Run the missing migrations under an advisory lock and return the revision reached.

    A migration that does not get a table within some seconds gives up: behind it everybody else would wait as well.

    Raises:
        StoreUnavailable: PostgreSQL is away, or somebody holds a table for too long; the same call may be made again.
    """

    def run(connection: Connection) -> None:
        config = _config()
        config.attributes["connection"] = connection
        connection.execute(text(f"SET lock_timeout = '{_LOCK_TIMEOUT_SECONDS}s'"))
        command.upgrade(config, revision)

    engine = make_engine(settings)
    try:
        async with translated(), engine.connect() as connection:
            # Two releases starting together must not migrate together; a session lock outlives the inner commits.
            await connection.execute(text(f"SELECT pg_advisory_lock({_LOCK})"))
            try:
                await connection.run_sync(run)
                await connection.commit()
            finally:
                # A failed transaction takes no more words; what has failed is told by the exception under way.
                await connection.rollback()
                await connection.execute(text(f"SELECT pg_advisory_unlock({_LOCK})"))
                await connection.commit()
    finally:
        await engine.dispose()
    return head_revision() if revision == "head" else revision


async def check(settings: PostgresSettings) -> str:
    """Return the database's revision if this release can work on it: its own, or a newer one's.

    Migrations only add before they take away, so that a release works on its successor's schema while both run.

    Raises:
        ConfigurationError: the database is empty or behind; the message says what to run.
        StoreUnavailable: PostgreSQL is away.
    """
    current, head = await current_revision(settings), head_revision()
    known = {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}
    if current is None or (current in known and current != head):
        state = "has no tables yet" if current is None else f"is at migration {current}, this release needs {head}"
        raise ConfigurationError(f"the database {state}; run: detectsched db upgrade")
    return current
