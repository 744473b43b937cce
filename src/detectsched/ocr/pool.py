"""All engine processes of a runner: one per slot, each replaced when it dies or is worn."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Sequence
from typing import Any, Final

from detectsched.detection import EngineResult
from detectsched.errors import ConfigurationError, EngineFailed
from detectsched.lifecycle import Service
from detectsched.ocr.process import COMMAND, EngineProcess
from detectsched.settings import OcrSettings
from detectsched.telemetry import get_logger

log = get_logger(__name__)

_BACKOFF_BASE_SECONDS: Final = 0.5
_BACKOFF_MAX_SECONDS: Final = 30.0


class EnginePool(Service):
    """Reads images, as many at once as there are slots.

    A keeper per slot waits until the slot's engine dies or is worn and puts another in its place. The replacement of a
    worn engine is started first and swapped in when it is ready, so recycling stops nobody (for those seconds both
    take memory).
    """

    def __init__(
        self,
        settings: OcrSettings,
        *,
        slots: int,
        max_pixels: int,
        task_timeout_seconds: float,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._settings = settings
        self._slots = slots
        self._max_pixels = max_pixels
        self._timeout = task_timeout_seconds
        self._command = command
        self._processes: set[EngineProcess] = set()
        # What is free, and None once for all who wait when the pool stops. It may hold engines that have died or been
        # replaced meanwhile; `_current` tells.
        self._free: asyncio.Queue[EngineProcess | None] = asyncio.Queue()
        self._current: dict[EngineProcess, asyncio.Event] = {}
        self._room = asyncio.Semaphore(slots)
        self._keepers: list[asyncio.Task[None]] = []
        self._retiring: set[asyncio.Task[None]] = set()
        self._failing: set[int] = set()
        self._engine, self._version = "", ""
        self.replaced = 0
        """Engine processes replaced since the start."""

    @property
    def healthy(self) -> bool:
        """Whether every slot has an engine or is just getting one; False while a slot's engine fails to start."""
        return bool(self._keepers) and not self._failing

    async def start(self) -> None:
        """Start all engines, side by side.

        Raises:
            ConfigurationError: one of them does not start; none is left running.
        """
        if self._keepers:
            return
        starting = [asyncio.create_task(self._spawn()) for _ in range(self._slots)]
        try:
            engines = await asyncio.gather(*starting)
        except BaseException:
            for task in starting:
                task.cancel()
            await asyncio.wait(starting)
            await self._kill_all()
            raise
        self._free = asyncio.Queue()
        self._engine, self._version = engines[0].engine, engines[0].version
        self._keepers = [
            asyncio.create_task(self._keep(slot, engine), name=f"engine slot {slot}")
            for slot, engine in enumerate(engines)
        ]
        log.info("engines ready", slots=self._slots, **self.describe())

    async def stop(self) -> None:
        """Kill all engines; reads that are under way fail."""
        keepers, self._keepers = self._keepers, []
        for keeper in keepers:
            keeper.cancel()
        if keepers:
            await asyncio.wait(keepers)
        self._free.put_nowait(None)
        await self._kill_all()
        if self._retiring:
            await asyncio.wait(self._retiring)
        self._current.clear()
        self._failing.clear()

    async def wait(self) -> None:
        """Raise when a keeper has died of a bug; return when the pool was stopped."""
        if not self._keepers:
            await super().wait()
        done, _ = await asyncio.wait(self._keepers, return_when=asyncio.FIRST_COMPLETED)
        for keeper in done:
            if not keeper.cancelled():
                keeper.result()

    async def read(self, data: bytes) -> EngineResult:
        """Read one image file; cancelling kills the engine that works on it.

        Raises:
            PayloadRejected: the image can never be read.
            EngineFailed: as `EngineProcess.read`, or ``engine_unavailable`` when no engine can be started.
        """
        async with self._room:
            process = await self._take()
            try:
                return await process.read(data, self._timeout)
            finally:
                self._give_back(process)

    def pids(self) -> tuple[int, ...]:
        """Return the engine processes' ids, those still starting included: a runner's own load is theirs too."""
        return tuple(sorted(pid for process in self._processes if (pid := process.pid) is not None))

    def describe(self) -> dict[str, str]:
        """Return the engine and its version; empty before the start."""
        return {"engine": self._engine, "version": self._version}

    async def _take(self) -> EngineProcess:
        limit = self._settings.start_timeout_seconds
        try:
            async with asyncio.timeout(limit):
                while self._keepers:
                    process = await self._free.get()
                    if process is None:
                        self._free.put_nowait(None)
                        break
                    if process.alive and process in self._current:
                        return process
        except TimeoutError:
            raise EngineFailed("engine_unavailable", f"no OCR engine could be started within {limit:g} s") from None
        raise EngineFailed("engine_unavailable", "the OCR engines are stopped")

    def _give_back(self, process: EngineProcess) -> None:
        worn = self._current.get(process)
        if worn is None:
            return
        if process.worn:
            worn.set()
        # A worn engine goes on working until its replacement is there; `_take` passes over a dead one.
        self._free.put_nowait(process)

    async def _keep(self, slot: int, process: EngineProcess) -> None:
        """Keep an engine in this slot for ever."""
        failures = 0
        while True:
            worn = self._current[process] = asyncio.Event()
            self._free.put_nowait(process)
            await _first(process.ended(), worn.wait())
            idle_death = process.images == 0
            failures = failures + 1 if idle_death else 0
            if failures:
                log.error("engine process died without an image", slot=slot, failures=failures)
                await _back_off(failures)
            successor, failures = await self._succeed(slot, failures)
            self.replaced += 1
            log.info("engine replaced", slot=slot, images=process.images, worn=worn.is_set())
            self._retire(process)
            process = successor

    async def _succeed(self, slot: int, failures: int) -> tuple[EngineProcess, int]:
        """Start engines until one is ready; return it and the failures in a row."""
        while True:
            try:
                process = await self._spawn()
            except ConfigurationError as error:
                failures += 1
                self._failing.add(slot)
                log.warning("engine does not restart", slot=slot, failures=failures, error=error.detail)
                await _back_off(failures)
            else:
                self._failing.discard(slot)
                return process, failures

    async def _spawn(self) -> EngineProcess:
        process = EngineProcess(self._settings, slots=self._slots, max_pixels=self._max_pixels, command=self._command)
        self._processes.add(process)
        try:
            await process.start()
        except BaseException:
            self._processes.discard(process)
            raise
        return process

    def _retire(self, process: EngineProcess) -> None:
        """Stop an engine after the image it is reading, without waiting for that here."""
        del self._current[process]

        async def retire() -> None:
            await process.retire()
            self._processes.discard(process)

        task = asyncio.create_task(retire())
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)

    async def _kill_all(self) -> None:
        await asyncio.gather(*(process.stop() for process in self._processes))
        self._processes.clear()


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
