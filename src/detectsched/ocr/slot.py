"""Keeps one place filled with an engine process: on a GPU, or on the CPU while that fails."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from enum import Enum, auto
from typing import Any, Final

from detectsched.clock import monotonic
from detectsched.errors import ConfigurationError, EngineFailed, EngineUnavailable
from detectsched.ocr.process import EngineProcess
from detectsched.settings import OcrSettings
from detectsched.telemetry import get_logger

log = get_logger(__name__)

_BACKOFF_BASE_SECONDS: Final = 0.5
_BACKOFF_MAX_SECONDS: Final = 30.0
_GPU_RETRY_TIMES: Final = 10
"""Longest wait for a probe of the GPU, as a multiple of the first."""
_GPU_FAULTS: Final = 3
"""Images in a row that fail on the GPU until it is left alone, though it still passes its test image."""

Spawn = Callable[[bool], Awaitable[EngineProcess]]
"""Starts an engine process, on a GPU or not; raises ConfigurationError when it does not get ready."""


class _Why(Enum):
    """Why an engine is to be replaced."""

    DIED = auto()
    WORN = auto()
    PROBE = auto()
    """It works on the CPU, and it is time to try the GPU again."""


class Slot:
    """Used for one read at a time (`ladder`); its `keep` runs beside that and replaces the engine.

    The replacement of a worn engine is started first and swapped in when it is ready, so recycling stops nobody (for
    those seconds both take memory).

    Args:
        number: which slot, for the log.
        settings: of the engines.
        spawn: starts an engine process.
        discard: forgets an engine process that is gone.
        changed: called when the slot can read again, can no longer, or has another device.
    """

    def __init__(
        self,
        number: int,
        settings: OcrSettings,
        *,
        spawn: Spawn,
        discard: Callable[[EngineProcess], None],
        changed: Callable[[], None],
    ) -> None:
        self.number = number
        self._settings = settings
        self._spawn = spawn
        self._discard = discard
        self._changed = changed
        self._process: EngineProcess | None = None
        self._usable = asyncio.Event()
        self._due = asyncio.Event()
        self._stopped = False
        self._retiring: set[asyncio.Task[None]] = set()
        self._gpu_faults = 0
        self._gpu_losses = 0
        self._probe_at: float | None = None
        self.failing = False
        """Whether its engine does not start."""
        self.replaced = 0
        """Engine processes replaced since the start."""

    @property
    def ready(self) -> bool:
        """Whether it has an engine that can read."""
        return self._process is not None and self._process.alive

    @property
    def gpu_down(self) -> bool:
        """Whether it should work on a GPU and works on the CPU, since the GPU failed."""
        return self._probe_at is not None

    def describe(self) -> dict[str, str]:
        """Return the engine and its version; empty before the start."""
        process = self._process
        return {"engine": process.engine, "version": process.version} if process is not None else {}

    async def start(self) -> None:
        """Start the first engine.

        Raises:
            ConfigurationError: it does not get ready. A GPU that is not usable is refused, not replaced by the CPU.
        """
        self._put(await self._spawn(self._settings.gpu))

    async def stop(self) -> None:
        """Let those who wait go; engines are killed by whoever started them."""
        self._stopped = True
        self._usable.set()
        if self._retiring:
            await asyncio.wait(self._retiring)

    def recycle(self) -> None:
        """Replace the engine when that suits."""
        self._due.set()

    # For reads --------------------------------------------------------------------------------------------------------

    async def engine(self) -> EngineProcess:
        """Return an engine that can read; wait for the next one to be ready.

        Raises:
            EngineUnavailable: none gets ready, or the pool is stopped.
        """
        # With a GPU, the patience is for its failing start and for the start on the CPU after it.
        limit = self._settings.start_timeout_seconds * (2 if self._settings.gpu else 1)
        try:
            async with asyncio.timeout(limit):
                while not self._stopped:
                    if self._process is not None and self._process.alive:
                        return self._process
                    self._usable.clear()
                    await self._usable.wait()
        except TimeoutError:
            raise EngineUnavailable(f"no OCR engine could be started within {limit:g} s") from None
        raise EngineUnavailable("the OCR engines are stopped")

    def look_at(self, process: EngineProcess) -> None:
        """See, after a read, whether an engine is worn."""
        # A worn engine goes on working until its replacement is there.
        if process is self._process and process.worn:
            self._due.set()

    def gpu_failed(self, error: EngineFailed) -> None:
        """Count an image that failed on the GPU."""
        self._gpu_faults += 1
        if self._gpu_faults >= _GPU_FAULTS and not self.gpu_down:
            self._lose_gpu(error.detail)

    def gpu_worked(self) -> None:
        """Take note that the GPU has read an image."""
        self._gpu_faults = self._gpu_losses = 0

    @asynccontextmanager
    async def engine_on_cpu(self) -> AsyncIterator[EngineProcess]:
        """Give an engine on the CPU, for one image; the slot goes on with its GPU.

        Raises:
            EngineUnavailable: it does not start.
        """
        try:
            process = await self._spawn(False)
        except ConfigurationError as error:
            raise EngineUnavailable(f"no engine could be started on the CPU: {error.detail}") from error
        try:
            yield process
        finally:
            await process.stop()
            self._discard(process)

    # Keeping ----------------------------------------------------------------------------------------------------------

    async def keep(self) -> None:
        """Keep an engine in this slot for ever."""
        failures = 0
        while True:
            process = self._process
            assert process is not None, "kept only once it has started"  # noqa: S101
            why = await self._reason_to_replace(process)
            if why is _Why.PROBE:
                await self._probe_gpu()
                continue
            idle_death = why is _Why.DIED and process.images == 0
            failures = failures + 1 if idle_death else 0
            if failures:
                log.error("engine process died without an image", slot=self.number, failures=failures)
                await _back_off(failures)
            successor, failures = await self._succeed(failures)
            log.info("engine replaced", slot=self.number, images=process.images, why=why.name.lower())
            self._put(successor)

    async def _reason_to_replace(self, process: EngineProcess) -> _Why:
        wait = None if self._probe_at is None else max(0.0, self._probe_at - monotonic())
        try:
            async with asyncio.timeout(wait):
                await _first(process.ended(), self._due.wait())
        except TimeoutError:
            return _Why.PROBE
        return _Why.WORN if process.alive else _Why.DIED

    async def _succeed(self, failures: int) -> tuple[EngineProcess, int]:
        """Start engines until one is ready; return it and the failures in a row."""
        while True:
            on_gpu = self._settings.gpu and not self.gpu_down
            try:
                process = await self._spawn(on_gpu)
            except ConfigurationError as error:
                if on_gpu:
                    self._lose_gpu(error.detail)
                    continue
                failures += 1
                self.failing = True
                log.warning("engine does not restart", slot=self.number, failures=failures, error=error.detail)
                self._changed()
                await _back_off(failures)
            else:
                self.failing = False
                return process, failures

    def _lose_gpu(self, error: str) -> None:
        """Leave the GPU alone for a while: what fails on it costs every image a ladder."""
        self._gpu_faults = 0
        pause = self._settings.gpu_retry_seconds * min(_GPU_RETRY_TIMES, 2**self._gpu_losses)
        self._gpu_losses += 1
        self._probe_at = monotonic() + pause
        self._due.set()
        log.error("GPU given up for a while", slot=self.number, probe_in_seconds=pause, error=error)
        self._changed()

    async def _probe_gpu(self) -> None:
        """Start an engine on the GPU; it takes over once it has read its test image there."""
        try:
            process = await self._spawn(True)
        except ConfigurationError as error:
            self._lose_gpu(error.detail)
            # The engine on the CPU is as good as it was.
            self._due.clear()
            return
        self._probe_at = None
        log.info("GPU works again", slot=self.number)
        self._put(process)

    def _put(self, process: EngineProcess) -> None:
        before, self._process = self._process, process
        self._due.clear()
        if process.gpu and self.gpu_down:
            # It was given up while this engine was starting on it.
            self._due.set()
        if before is not None:
            self.replaced += 1
            self._retire(before)
        self._usable.set()
        self._changed()

    def _retire(self, process: EngineProcess) -> None:
        """Stop an engine after the image it is reading, without waiting for that here."""

        async def retire() -> None:
            await process.retire()
            self._discard(process)

        task = asyncio.create_task(retire())
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)


async def _first(*waits: Coroutine[Any, Any, object]) -> None:
    """Return when one of the waits is over."""
    tasks = [asyncio.create_task(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _back_off(failures: int) -> None:
    """Pause before the next start, longer each time: a broken installation must not eat the machine."""
    longest = min(_BACKOFF_MAX_SECONDS, _BACKOFF_BASE_SECONDS * 2 ** min(failures - 1, 10))
    # Jitter: slots that broke together must not start together.
    await asyncio.sleep(longest * random.uniform(0.7, 1.0))  # noqa: S311 - not a secret
