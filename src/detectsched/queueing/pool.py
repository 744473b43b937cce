"""A pool of connections to Redis that no cancelled caller can harm."""

from __future__ import annotations

import asyncio
from typing import Any

from redis.asyncio import ConnectionPool
from redis.exceptions import ConnectionError as RedisConnectionError


class PatientPool(ConnectionPool):
    """Lets callers wait for a connection, as redis-py's BlockingConnectionPool does.

    That one loses wake-ups: it waits on a condition, and until Python 3.13 a waiter that is notified and cancelled in
    the same moment keeps the notification to itself, so that others wait until their time-out beside free connections.
    A semaphore passes it on. What is taken and returned is noted without a point at which a caller could be cancelled.
    """

    def __init__(self, *, max_connections: int, timeout: float, **options: Any) -> None:
        """Make an empty pool of at most ``max_connections``; callers wait ``timeout`` seconds for one."""
        super().__init__(max_connections=max_connections, **options)
        self._free = asyncio.Semaphore(max_connections)
        self._timeout = timeout

    async def get_connection(self, *_: Any, **__: Any) -> Any:
        """Return a connection that is ready.

        Raises:
            redis.exceptions.ConnectionError: none came free in time, or the server cannot be reached.
        """
        try:
            async with asyncio.timeout(self._timeout):
                await self._free.acquire()
        except TimeoutError as error:
            raise RedisConnectionError("No connection available.") from error
        try:
            connection = self.get_available_connection()  # type: ignore[no-untyped-call]
        except BaseException:
            self._free.release()
            raise
        try:
            await self.ensure_connection(connection)
        except BaseException:
            await self.release(connection)
            raise
        return connection

    async def release(self, connection: Any) -> None:
        """Take a connection back."""
        self._in_use_connections.remove(connection)
        try:
            if connection.should_reconnect():
                await connection.disconnect()
        finally:
            self._available_connections.append(connection)
            self._free.release()
