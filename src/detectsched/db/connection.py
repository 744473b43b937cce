"""The one place where connections to PostgreSQL are made.

`Ledger.pool` (asyncpg) serves the hot, set-based statements; `Ledger.engine` (SQLAlchemy) the reads and the
administration through SQLModel. Both have explicit sizes and time-outs, and both say `StoreUnavailable` when
PostgreSQL is away.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias

import asyncpg
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlmodel.ext.asyncio.session import AsyncSession

from detectsched.db.data_keys import DataKeys
from detectsched.errors import ConfigurationError, StoreUnavailable
from detectsched.sealing import MasterKeys
from detectsched.settings import EncryptionSettings, PostgresSettings

Connection: TypeAlias = Any
"""An asyncpg connection, as the pool lends it."""

_AWAY: Final = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.PostgresConnectionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.OperatorInterventionError,
    asyncpg.QueryCanceledError,
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.InternalClientError,
    asyncpg.LockNotAvailableError,
)


def make_engine(settings: PostgresSettings) -> AsyncEngine:
    """Return a SQLAlchemy engine over asyncpg for reads and administration."""
    try:
        url = make_url(settings.url.get_secret_value()).set(drivername="postgresql+asyncpg")
    except Exception as error:
        raise ConfigurationError(f"DETECTSCHED_POSTGRES_URL cannot be read: {error}") from error
    # A unix socket is given as ?host=/dir; asyncpg takes it as its host argument.
    host = url.query.get("host")
    connect: dict[str, Any] = {"command_timeout": settings.command_timeout_seconds}
    if host:
        url = url.difference_update_query(["host"])
        connect["host"] = host
    return create_async_engine(
        url,
        pool_size=settings.read_pool_size,
        max_overflow=settings.read_pool_overflow,
        pool_timeout=settings.pool_timeout_seconds,
        pool_recycle=settings.pool_recycle_seconds,
        connect_args=connect,
        # What is bound to a statement may be anybody's text: errors must not carry it into a log.
        hide_parameters=True,
    )


class Ledger:
    """PostgreSQL as seen from one process and one event loop; ``master`` seals keys in it, ``data_keys`` tasks."""

    def __init__(self, settings: PostgresSettings, encryption: EncryptionSettings | None = None) -> None:
        self._settings = settings
        self.master = MasterKeys.of(encryption or EncryptionSettings())
        self.data_keys = DataKeys(self.master, self.connection)
        self._pool: asyncpg.Pool[Any] | None = None
        self._opening = asyncio.Lock()
        self.engine = make_engine(settings)
        self._reader = self.engine.execution_options(isolation_level="AUTOCOMMIT")

    async def _open(self) -> asyncpg.Pool[Any]:
        async with self._opening:
            if self._pool is None:
                self._pool = await asyncpg.create_pool(
                    self._settings.url.get_secret_value(),
                    min_size=1,
                    max_size=self._settings.pool_size,
                    command_timeout=self._settings.command_timeout_seconds,
                    timeout=self._settings.pool_timeout_seconds,
                    init=_prepare,
                    reset=_keep,
                )
            return self._pool

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Lend a connection for one statement, committed by itself.

        Raises:
            StoreUnavailable: PostgreSQL is away, or no connection came free in time.
        """
        async with translated():
            pool = self._pool or await self._open()
            async with pool.acquire(timeout=self._settings.pool_timeout_seconds) as connection:
                yield connection

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """Lend a connection inside a transaction that commits when the block ends without an exception."""
        async with self.connection() as connection, connection.transaction():
            yield connection

    @asynccontextmanager
    async def own_connection(self) -> AsyncIterator[Connection]:
        """Lend a connection that belongs to no pool: for listening, which lasts as long as its process."""
        async with translated():
            connection = await asyncpg.connect(
                self._settings.url.get_secret_value(),
                timeout=self._settings.pool_timeout_seconds,
                command_timeout=self._settings.command_timeout_seconds,
            )
            try:
                yield connection
            finally:
                # Whoever stops listening has nothing to say any more.
                connection.terminate()

    @asynccontextmanager
    async def session(self) -> AsyncIterator[AsyncSession]:
        """Lend an SQLModel session; what it writes is committed when the block ends without an exception."""
        async with translated(), AsyncSession(self.engine, expire_on_commit=False) as session:
            yield session
            await session.commit()

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncSession]:
        """Lend an SQLModel session for reading: each query sees the present, and no transaction costs round trips."""
        async with translated(), AsyncSession(self._reader) as session:
            yield session

    async def close(self) -> None:
        """Close every connection."""
        await self.engine.dispose()
        if self._pool is not None:
            pool, self._pool = self._pool, None
            try:
                await asyncio.wait_for(pool.close(), 5.0)
            except TimeoutError:
                pool.terminate()


async def _prepare(connection: Any) -> None:
    await connection.set_type_codec("jsonb", encoder=json.dumps, decoder=json.loads, schema="pg_catalog")


async def _keep(_connection: Any) -> None:
    """Leave a returned connection as it is: we set nothing on sessions, and resetting them costs a round trip each."""


@asynccontextmanager
async def translated() -> AsyncIterator[None]:
    """Turn whatever says "PostgreSQL is away" into `StoreUnavailable`."""
    try:
        yield
    except asyncpg.PostgresError as error:
        _silence(error)
        if isinstance(error, _AWAY):
            raise StoreUnavailable(f"PostgreSQL is not reachable: {error}") from error
        raise
    except _AWAY as error:
        raise StoreUnavailable(f"PostgreSQL is not reachable: {str(error) or type(error).__name__}") from error
    except (OperationalError, InterfaceError, PoolTimeout) as error:
        raise StoreUnavailable(f"PostgreSQL is not reachable: {error}") from error
    except DBAPIError as error:
        if error.connection_invalidated or _stands_for_away(error):
            raise StoreUnavailable(f"PostgreSQL is not reachable: {error}") from error
        raise


def _stands_for_away(error: DBAPIError) -> bool:
    """Whether asyncpg's own error, which SQLAlchemy wraps twice, says that the server cannot serve now.

    SQLAlchemy sorts asyncpg's errors into the classes of DB-API, and knows none for a server that is starting up, has
    no connection left or ends a statement.
    """
    cause: BaseException | None = error.orig
    while cause is not None:
        if isinstance(cause, _AWAY):
            return True
        cause = cause.__cause__
    return False


def _silence(error: asyncpg.PostgresError) -> None:
    """Take out of an error what quotes values: the row that did not fit, the argument that is wrong. Logs show it."""
    error.detail = None
    if isinstance(error, asyncpg.DataError):
        error.args = ("a value does not fit; which one is not told",)
