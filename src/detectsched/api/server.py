"""The API's process: serves the application until it is told to stop, then ends within the grace."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Final

import uvicorn

from detectsched.api.app import create_app
from detectsched.api.context import ApiContext
from detectsched.api.protocol import BoundedProtocol
from detectsched.db.connection import Ledger
from detectsched.errors import ConfigurationError
from detectsched.lifecycle import Service, stop_in_reverse
from detectsched.queueing.queue import Queue
from detectsched.settings import ApiSettings, Settings
from detectsched.storage.blobs import BlobStore
from detectsched.telemetry import get_logger

log = get_logger(__name__)

_BACKLOG: Final = 2048
_KEEP_ALIVE_SECONDS: Final = 75
"""Longer than the 60 s of usual load balancers: they must not send into a connection that we are just closing."""
_CUT_OFF_SECONDS: Final = 1.0
"""How long requests whose grace is over may take to say so."""


class _Server(uvicorn.Server):
    """Uvicorn without its signal handlers: signals belong to the entry point, which stops services in order."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say so."""
        await super().startup(sockets)
        self.listening.set()


class ApiServer(Service):
    """The HTTP API on the stores of its process, which outlive it."""

    def __init__(self, queue: Queue, ledger: Ledger, blobs: BlobStore, settings: Settings) -> None:
        self._stores = (queue, ledger, blobs)
        self._settings = settings
        self._changing = asyncio.Lock()
        self._running: _Running | None = None

    @property
    def name(self) -> str:
        """What the logs call it."""
        return "api"

    @property
    def port(self) -> int:
        """The port that is listened on, also where the settings say 0; only between start and stop."""
        return self._served.port

    @property
    def context(self) -> ApiContext:
        """What the routes work with; only between start and stop."""
        return self._served.context

    async def start(self) -> None:
        """Listen; requests are answered when this returns.

        Raises:
            ConfigurationError: the address is in use, or not ours.
        """
        async with self._changing:
            if self._running is None:
                running = _Running(ApiContext.make(*self._stores, self._settings), self._settings.api)
                try:
                    await running.start()
                except BaseException:
                    await running.stop()
                    raise
                self._running = running
                log.info("listening", host=self._settings.api.host, port=running.port)

    async def stop(self) -> None:
        """Refuse new connections, let open requests end within the grace, send long-polls home at once."""
        async with self._changing:
            if self._running is not None:
                running, self._running = self._running, None
                await running.stop()

    async def wait(self) -> None:
        """Return or raise when the server, or a loop behind it, has ended by itself."""
        if self._running is not None:
            await self._running.wait()

    @property
    def _served(self) -> _Running:
        if self._running is None:
            raise RuntimeError("the API is not running")
        return self._running


class _Running:
    """One run from start to stop."""

    def __init__(self, context: ApiContext, settings: ApiSettings) -> None:
        self.context = context
        self.port = 0
        self._settings = settings
        self._services = context.services()
        self._server = _Server(
            uvicorn.Config(
                create_app(context),
                http=BoundedProtocol,
                ws="none",
                lifespan="off",
                interface="asgi3",
                log_config=None,
                access_log=False,
                server_header=False,
                # Nobody is believed who says for whom he speaks.
                proxy_headers=False,
                backlog=_BACKLOG,
                timeout_keep_alive=_KEEP_ALIVE_SECONDS,
                # Whole seconds are all that uvicorn's type takes; waiting takes any number.
                timeout_graceful_shutdown=settings.grace_seconds,  # type: ignore[arg-type]
            )
        )
        self._listener: socket.socket | None = None
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the loops behind the routes, then listen."""
        self._listener = _listen(self._settings)
        self.port = self._listener.getsockname()[1]
        for service in self._services:
            await service.start()
        self._serving = asyncio.create_task(self._server.serve([self._listener]), name="uvicorn")
        listening = asyncio.create_task(self._server.listening.wait())
        await asyncio.wait([listening, self._serving], return_when=asyncio.FIRST_COMPLETED)
        listening.cancel()
        if self._serving.done():
            await self._serving

    async def stop(self) -> None:
        """Stop listening, then what was behind it."""
        self.context.begin_stop()
        if self._serving is not None:
            self._server.should_exit = True
            await asyncio.wait([self._serving])
            if (error := self._serving.exception()) is not None:
                log.error("the server had failed", error=repr(error))
        if self._server.server_state.tasks:
            await asyncio.wait(self._server.server_state.tasks, timeout=_CUT_OFF_SECONDS)
        if self._listener is not None:
            self._listener.close()
        # What requests that were cut off had begun to write goes down before the stores are closed.
        await self.context.accept_path.drain()
        await stop_in_reverse(self._services)

    async def wait(self) -> None:
        """Return when any part has ended; raise what it raised."""
        assert self._serving is not None, "started"  # noqa: S101 - a bug, not an input
        watchers = [asyncio.create_task(service.wait()) for service in self._services]
        try:
            await asyncio.wait([self._serving, *watchers], return_when=asyncio.FIRST_COMPLETED)
            for ended in (self._serving, *watchers):
                if ended.done():
                    ended.result()
        finally:
            for watcher in watchers:
                watcher.cancel()


def _listen(settings: ApiSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise ConfigurationError(
            f"cannot listen on {settings.host} port {settings.port}: {error.strerror or error}; choose another with "
            "DETECTSCHED_API_HOST and DETECTSCHED_API_PORT"
        ) from error
