"""The one place where connections to Redis are made, with every time-out and retry set on purpose.

redis-py retries ten times by default and replays the command, so that a lost reply runs a script again; all our scripts
are idempotent, and one replay after a connection that had gone stale in the pool is all we want.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeAlias

from redis.asyncio import Redis as _Redis
from redis.asyncio.connection import AbstractConnection, parse_url
from redis.asyncio.retry import Retry
from redis.backoff import ConstantBackoff, NoBackoff
from redis.exceptions import ClusterDownError, OutOfMemoryError, ReadOnlyError, RedisError, ResponseError, TryAgainError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from detectsched.clock import monotonic
from detectsched.errors import ConfigurationError, GenerationLost, StoreDamaged, StoreUnavailable
from detectsched.queueing.packing import packing
from detectsched.queueing.pool import PatientPool
from detectsched.settings import RedisSettings

Redis: TypeAlias = Any
"""A redis.asyncio client. Its own types say `bytes | str` for every answer; ours always answers bytes."""

_BLOCK_MARGIN_SECONDS: Final = 3.0
_CALM_SECONDS: Final = 1.0
"""How long a process leaves a server in peace to which it could not connect."""
_TEMPORARY: Final = re.compile(r"(?:^|caused error: \(.)(?:BUSY|MISCONF|NOREPLICAS|UNBLOCKED) ")
"""What the server says while it cannot serve, where redis-py has no class for it; a pipeline quotes it."""

_DAMAGED: Final = re.compile(
    r"WRONGTYPE|not an integer|not a (?:valid )?float|attempt to |bad argument|user_script|@user_function"
)
"""What the server says of a key of another type, and of a script that met what it cannot work with."""

_NO_GROUP: Final = re.compile(r"(?:^|caused error: \(.)NOGROUP ")

_MEANT_FOR: Final[ContextVar[str | None]] = ContextVar("run id of the server that is meant", default=None)


class ServerChanged(RedisError):
    """Another server answers than the one that was meant."""


@contextmanager
def meant_for(run_id: str) -> Iterator[None]:
    """Say nothing to another server than this one: a connection that has to be made for it fails there."""
    token = _MEANT_FOR.set(run_id)
    try:
        yield
    finally:
        _MEANT_FOR.reset(token)


class ServerWatch:
    """The run id of the server that was last connected to: another one means another life of the data."""

    def __init__(self) -> None:
        self.run_id: str | None = None

    async def on_connect(self, connection: AbstractConnection) -> None:
        """Greet the server as usual, then ask who it is.

        Raises:
            ServerChanged: what is about to be said was meant for another one.
        """
        await connection.on_connect()
        await connection.send_command("INFO", "server")
        answer: Any = await connection.read_response()
        text = answer.decode() if isinstance(answer, bytes) else str(answer)
        for line in text.splitlines():
            if line.startswith("run_id:"):
                self.run_id = line.partition(":")[2].strip()
        if _MEANT_FOR.get() not in {None, self.run_id}:
            raise ServerChanged("another server answers now")


class Calm:
    """Leaves a server in peace to which nobody could connect: every loop, and every request, would try by itself."""

    def __init__(self) -> None:
        self._until: float | None = None
        self._trying = False

    def wrap(self, kind: Any) -> Any:
        """Return connections of this kind that share the calm: one attempt a second, however many want one."""
        calm = self

        class CalmConnection(kind):  # type: ignore[misc]  # which kind it is, the URL decides
            async def _connect(self) -> None:
                async with calm.attempt():
                    await super()._connect()

        return CalmConnection

    @asynccontextmanager
    async def attempt(self) -> AsyncIterator[None]:
        """Let one attempt through where the last one has failed, and only after a while."""
        suspect = self._until is not None
        if self._until is not None and (self._trying or monotonic() < self._until):
            raise RedisConnectionError("nobody answered a moment ago")
        self._trying = self._trying or suspect
        try:
            yield
        except (OSError, TimeoutError):
            self._until = monotonic() + _CALM_SECONDS
            raise
        else:
            self._until = None
        finally:
            self._trying = self._trying and not suspect


class RedisClients:
    """A client for commands and one for blocking reads; both belong to one process and one event loop."""

    def __init__(self, settings: RedisSettings, *, name: str) -> None:
        self.watch = ServerWatch()
        self._calm = Calm()
        self._settings = settings
        label = f"detectsched-{name}-{socket.gethostname()}-{os.getpid()}"
        stale = Retry(ConstantBackoff(0.01), 1, supported_errors=(RedisConnectionError,))
        self.commands = self._client(label, settings.socket_timeout_seconds, stale)
        # A blocking read must not be replayed in silence: its reply may hold tasks that are now in our name.
        never = Retry(NoBackoff(), 0, supported_errors=(RedisConnectionError,))
        self.blocking = self._client(f"{label}-blocking", None, never)

    def _client(self, label: str, socket_timeout: float | None, retry: Retry) -> Redis:
        url = self._settings.url.get_secret_value()
        try:
            parse_url(url)
        except ValueError as error:
            raise ConfigurationError(f"DETECTSCHED_REDIS_URL: {error}") from error
        pool = PatientPool.from_url(
            url,
            max_connections=self._settings.max_connections,
            timeout=self._settings.connect_timeout_seconds,
            socket_timeout=socket_timeout,
            socket_connect_timeout=self._settings.connect_timeout_seconds,
            retry=retry,
            client_name=label.replace(" ", "_"),
            redis_connect_func=self.watch.on_connect,
            health_check_interval=0,
            protocol=2,
        )
        pool.connection_class = packing(self._calm.wrap(pool.connection_class))
        return _Redis.from_pool(pool)

    async def close(self) -> None:
        """Close every connection."""
        await self.commands.aclose()
        await self.blocking.aclose()


@asynccontextmanager
async def translated(timeout_seconds: float | None = None) -> AsyncIterator[None]:
    """Turn whatever says "Redis is away" into `StoreUnavailable`; with a time-out of our own around blocking calls.

    Raises:
        GenerationLost: a stream or its group is missing: part of the data is lost.
        StoreDamaged: something is there that nothing of ours has written.
        StoreUnavailable: for now there is no (writable) server, no memory or no connection.
    """
    limit = None if timeout_seconds is None else timeout_seconds + _BLOCK_MARGIN_SECONDS
    try:
        async with asyncio.timeout(limit):
            yield
    except (RedisConnectionError, RedisTimeoutError, ServerChanged, TimeoutError, OSError) as error:
        raise StoreUnavailable(f"Redis is not reachable: {error}") from error
    except (ClusterDownError, OutOfMemoryError, ReadOnlyError, TryAgainError) as error:
        raise StoreUnavailable(f"Redis cannot serve now: {error}") from error
    except ResponseError as error:
        if _NO_GROUP.search(str(error)):
            raise GenerationLost("a stream of the queues is missing; they are rebuilt in a moment") from error
        if _TEMPORARY.search(str(error)):
            raise StoreUnavailable(f"Redis cannot serve now: {error}") from error
        if _DAMAGED.search(str(error)):
            raise StoreDamaged(f"Redis holds damaged data: {error}") from error
        raise
    except RedisError as error:
        if "Too many connections" in str(error) or "No connection available" in str(error):
            raise StoreUnavailable(f"Redis connections are used up: {error}") from error
        raise
