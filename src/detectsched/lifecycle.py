"""How everything long-running starts, waits, fails and stops.

A `Service` may be started twice, stopped twice, and stopped before it was started. A `Loop` is a service that repeats
one duty, `run_once`, at an interval or when woken. `run_services` starts services in the order given, stops them in
reverse, and turns a signal or a dead service into an orderly stop.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Final

from detectsched.errors import StoreUnavailable
from detectsched.telemetry import get_logger

log = get_logger(__name__)

_RETRY_BASE_SECONDS: Final = 0.2
_RETRY_MAX_SECONDS: Final = 5.0


class Service(ABC):
    """Something that runs until it is stopped."""

    @property
    def name(self) -> str:
        """What the logs call it."""
        return type(self).__name__.lower()

    @abstractmethod
    async def start(self) -> None:
        """Begin; a second call does nothing."""

    @abstractmethod
    async def stop(self) -> None:
        """End and clean up; a second call, or one before `start`, does nothing."""

    async def wait(self) -> None:
        """Return when the service has ended by itself, raising what killed it; most never do."""
        await asyncio.Event().wait()


class Loop(Service):
    """One duty, repeated: waits until "stop, a wake-up, or at most the interval", then does one turn.

    A store that is away (`StoreUnavailable`) is waited for with a growing, jittered pause and one log line a streak;
    any other exception ends the loop, and with it the process: a bug must not be retried for ever in silence.
    """

    def __init__(self, interval_seconds: float) -> None:
        self._interval = interval_seconds
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self._wake = asyncio.Event()

    @abstractmethod
    async def run_once(self) -> object:
        """Do one turn of the duty; what it returns is for tests and logs."""

    def wake(self) -> None:
        """Make the next turn start now."""
        self._wake.set()

    async def pause(self) -> None:
        """Wait for the next turn; overridden by loops that wait for something in Redis."""
        # Jitter keeps several processes from sweeping in step.
        interval = self._interval * random.uniform(0.9, 1.1)  # noqa: S311 - not a secret
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), interval)
        self._wake.clear()

    async def start(self) -> None:
        """Start repeating."""
        if self._task is None:
            self._stopping = False
            self._task = asyncio.create_task(self._run(), name=self.name)

    async def stop(self) -> None:
        """Stop after the turn that is under way."""
        self._stopping = True
        self.wake()
        task, self._task = self._task, None
        if task is not None:
            await self.interrupt(task)
            await asyncio.wait([task])
            if not task.cancelled() and (error := task.exception()) is not None:
                log.error("service failed", service=self.name, error=repr(error))

    async def interrupt(self, task: asyncio.Task[None]) -> None:
        """Hurry the loop out of `pause`; loops that wait elsewhere than on `wake` cancel the task here."""

    async def wait(self) -> None:
        """Return or raise when the loop has ended."""
        if self._task is not None:
            await asyncio.shield(self._task)

    async def _run(self) -> None:
        failures = 0
        while not self._stopping:
            try:
                await self.run_once()
            except StoreUnavailable as error:
                failures += 1
                if failures == 1:
                    log.warning("store unavailable, will retry", service=self.name, error=error.detail)
                delay = min(_RETRY_MAX_SECONDS, _RETRY_BASE_SECONDS * 2 ** min(failures - 1, 10))
                # Full jitter: a restarted store must not meet all its clients at the same instant.
                self._wake.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), random.uniform(0.05, delay))  # noqa: S311
                continue
            if failures:
                log.info("store available again", service=self.name, failures=failures)
                failures = 0
            if not self._stopping:
                await self._guarded_pause()

    async def _guarded_pause(self) -> None:
        try:
            await self.pause()
        except StoreUnavailable:
            # The next turn meets the same store and reports it.
            await asyncio.sleep(_RETRY_BASE_SECONDS)


async def run_services(services: Sequence[Service], *, ready: Callable[[], None] | None = None) -> int:
    """Run services until a signal or until one of them dies; return the exit status.

    Services are started in the order given and stopped in reverse, so that each finds what it depends on until its own
    end. The first SIGINT or SIGTERM asks for an orderly stop, the second kills at once.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    signals = 0

    def on_signal(signum: int) -> None:
        nonlocal signals
        signals += 1
        if signals > 1:
            log.error("second signal, killing", signal=signum)
            sys.stderr.flush()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.raise_signal(signal.SIGKILL)
        log.info("stopping", signal=signal.Signals(signum).name)
        stop.set()

    for signum in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signum, on_signal, signum)
    started: list[Service] = []
    watchers: dict[asyncio.Task[None], Service] = {}
    status = 0
    try:
        for service in services:
            if stop.is_set():
                break
            started.append(service)
            await service.start()
            watchers[asyncio.create_task(service.wait())] = service
        stopper = asyncio.create_task(stop.wait())
        if ready is not None and not stop.is_set():
            ready()
        done, _ = await asyncio.wait([stopper, *watchers], return_when=asyncio.FIRST_COMPLETED)
        stopper.cancel()
        for task in done & watchers.keys():
            error = task.exception()
            log.error("service ended", service=watchers[task].name, error=repr(error), exc_info=error)
            status = 1
    finally:
        for task in watchers:
            task.cancel()
        await stop_in_reverse(started)
        for signum in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(signum)
    return status


async def stop_in_reverse(services: Sequence[Service]) -> None:
    """Stop every service, last started first; one that fails to stop does not keep the others from it."""
    for service in reversed(services):
        try:
            await service.stop()
        except Exception as error:  # noqa: BLE001 - every other service must still be stopped
            log.exception("service failed to stop", service=service.name, error=repr(error))
