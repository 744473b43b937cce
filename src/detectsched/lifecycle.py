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
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, Final

from detectsched.errors import DetectschedError, StoreUnavailable
from detectsched.telemetry import AWAY, BACK, get_logger

log = get_logger(__name__)

_RETRY_BASE_SECONDS: Final = 0.2
_RETRY_MAX_SECONDS: Final = 5.0
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


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

    A store that is away (`StoreUnavailable`) is waited for with a growing, jittered pause and one log line a streak, or
    none while other loops of the process have just said the same;
    any other exception ends the loop, and with it the process: a bug must not be retried for ever in silence.
    """

    pause_is_elsewhere: ClassVar[bool] = False
    """Set by loops whose `pause` waits for something other than `wake`: stopping cancels that wait."""

    def __init__(self, interval_seconds: float) -> None:
        self._interval = interval_seconds
        # Starts and stops that overlap take effect in the order of their calls.
        self._changing = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self._wake = asyncio.Event()
        self._reported = False
        self._pausing = False

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
        await self._wait_for_wake(interval)

    async def start(self) -> None:
        """Start repeating."""
        async with self._changing:
            if self._task is None:
                self._stopping = False
                self._wake.clear()
                self._reported = False
                self._task = asyncio.create_task(self._run(), name=self.name)

    async def stop(self) -> None:
        """Stop after the turn that is under way."""
        async with self._changing:
            if self._task is None:
                return
            task = self._task
            self._stopping = True
            self.wake()
            await self.interrupt(task)
            await asyncio.wait([task])
            self._task = None
            if not task.cancelled() and (error := task.exception()) is not None and not self._reported:
                log.error("service had failed", service=self.name, error=repr(error))

    async def interrupt(self, task: asyncio.Task[None]) -> None:
        """Hurry the loop out of `pause`; loops whose turn itself waits cancel the task here."""
        if self.pause_is_elsewhere and self._pausing:
            task.cancel()

    async def wait(self) -> None:
        """Return or raise when the loop has ended."""
        if (task := self._task) is None:
            return
        await asyncio.wait([task])
        if not task.cancelled() and (error := task.exception()) is not None:
            self._reported = True
            raise error

    async def _run(self) -> None:
        failures, told = 0, False
        while not self._stopping:
            try:
                await self.run_once()
            except (StoreUnavailable, ExceptionGroup) as error:
                unavailable = _as_unavailable(error)
                failures += 1
                if not told and AWAY.lets():
                    told = True
                    log.warning("store unavailable, will retry", service=self.name, error=unavailable.detail)
                await self._back_off(failures)
                continue
            # Whoever comes back says so, for another may have spoken of the absence: requests do, too.
            if failures and BACK.lets():
                log.info("store available again", service=self.name, failures=failures)
            failures, told = 0, False
            if not self._stopping:
                await self._guarded_pause()

    async def _guarded_pause(self) -> None:
        self._pausing = True
        try:
            await self.pause()
        except (StoreUnavailable, ExceptionGroup) as error:
            _as_unavailable(error)
            # Not reported here: the next turn meets the same store.
            await self._back_off(1)
        finally:
            self._pausing = False

    async def _back_off(self, failures: int) -> None:
        # Full jitter: a restarted store must not meet all its clients at the same instant.
        limit = min(_RETRY_MAX_SECONDS, _RETRY_BASE_SECONDS * 2 ** min(failures - 1, 10))
        if not self._stopping:
            # Whatever woke the loop before is served by the retry; it must not make it a hot one.
            self._wake.clear()
            await self._wait_for_wake(random.uniform(0.05, limit))  # noqa: S311 - not a secret

    async def _wait_for_wake(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        self._wake.clear()


def _as_unavailable(error: Exception) -> StoreUnavailable:
    """Return the store's absence that an exception stands for; raise it again if it stands for anything else.

    A TaskGroup wraps what its tasks raise.
    """
    if isinstance(error, StoreUnavailable):
        return error
    if isinstance(error, ExceptionGroup) and error.split(StoreUnavailable)[1] is None:
        first: BaseException = error
        while isinstance(first, ExceptionGroup):
            first = first.exceptions[0]
        if isinstance(first, StoreUnavailable):
            return first
    raise error


async def run_services(
    services: Sequence[Service], *, ready: Callable[[], None] | None = None, stop: asyncio.Event | None = None
) -> int:
    """Run services until a signal or until one of them dies; return the exit status.

    Services are started in the order given and stopped in reverse, so that each finds what it depends on until its own
    end. The first SIGINT or SIGTERM asks for an orderly stop, also during a slow start; the second kills at once.

    Args:
        services: in the order of their dependencies.
        ready: called when all have started.
        stop: set by somebody inside to ask for the same orderly stop.

    Raises:
        Exception: what the start of a service raised; those before it have been stopped.
    """
    stop = stop or asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_signal(signum: signal.Signals) -> None:
        log.info("stopping", signal=signum.name)
        stop.set()
        for each in _SIGNALS:
            loop.remove_signal_handler(each)
            # The kernel itself carries out the second signal: it works even where this loop is stuck.
            signal.signal(each, signal.SIG_DFL)

    for signum in _SIGNALS:
        loop.add_signal_handler(signum, on_signal, signum)
    run = _Run(stop)
    try:
        for service in services:
            if not await run.start(service):
                break
        else:
            if ready is not None:
                ready()
            await run.until_stop_or_death()
        return run.status
    finally:
        await run.stop()
        for signum in _SIGNALS:
            loop.remove_signal_handler(signum)


class _Run:
    """What `run_services` has started, and what became of it."""

    def __init__(self, stop: asyncio.Event) -> None:
        self.status = 0
        self._started: list[Service] = []
        self._watchers: dict[asyncio.Task[None], Service] = {}
        self._stopper = asyncio.create_task(stop.wait())

    async def start(self, service: Service) -> bool:
        """Start one more service; False if a stop or a death came first."""
        # Noted before, so that a start that was broken off is cleaned up as well.
        self._started.append(service)
        starting = asyncio.create_task(service.start())
        try:
            await asyncio.wait([starting, self._stopper, *self._watchers], return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not starting.done():
                starting.cancel()
                await asyncio.wait([starting])
        if not starting.cancelled():
            starting.result()
        self._watchers[asyncio.create_task(service.wait())] = service
        return not self._over()

    async def until_stop_or_death(self) -> None:
        """Wait for what ends the run."""
        await asyncio.wait([self._stopper, *self._watchers], return_when=asyncio.FIRST_COMPLETED)
        self._over()

    async def stop(self) -> None:
        """Stop all, last started first."""
        for task in (self._stopper, *self._watchers):
            task.cancel()
        await stop_in_reverse(self._started)

    def _over(self) -> bool:
        for task in [task for task in self._watchers if task.done()]:
            service = self._watchers.pop(task)
            error = None if task.cancelled() else task.exception()
            # Our own errors are sentences for people; of any other the trace tells where it is.
            trace = error if not isinstance(error, DetectschedError) else None
            log.error("service ended", service=service.name, error=str(error) or repr(error), exc_info=trace)
            self.status = 1
        return self.status != 0 or self._stopper.done()


async def stop_in_reverse(services: Sequence[Service]) -> None:
    """Stop every service, last started first; one that fails to stop does not keep the others from it."""
    for service in reversed(services):
        try:
            await service.stop()
        except Exception as error:
            log.exception("service failed to stop", service=service.name, error=repr(error))
