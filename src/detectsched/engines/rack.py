"""All engines of a runner, by name: the OCR engine from the start, the others from their first task on."""

from __future__ import annotations

import asyncio
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence

from detectsched.detection import EngineResult
from detectsched.engines.catalog import plugins
from detectsched.errors import ConfigurationError, EngineFailed, EngineUnavailable
from detectsched.lifecycle import Service
from detectsched.ocr.pool import EnginePool
from detectsched.task import ENGINE_OCR


class EngineRack(Service):
    """Holds a pool of processes per engine.

    Args:
        ocr: the pool of the built-in engine.
        make: returns a pool whose processes run a command.
    """

    def __init__(self, ocr: EnginePool, make: Callable[[Sequence[str]], EnginePool]) -> None:
        self._ocr = ocr
        self._make = make
        self._pools: dict[str, EnginePool] = {}
        self._starting: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def start(self) -> None:
        """Start the OCR engine.

        Raises:
            ConfigurationError: it does not start.
        """
        await self._ocr.start()

    async def stop(self) -> None:
        """Kill all engines; reads that are under way fail."""
        await asyncio.gather(self._ocr.stop(), *(pool.stop() for pool in self._pools.values()))
        self._pools.clear()

    async def wait(self) -> None:
        """Raise when the OCR engine's pool has died of a bug; return when it was stopped."""
        await self._ocr.wait()

    async def read(self, engine: str, data: bytes) -> EngineResult:
        """Return what an engine makes of a payload; cancelling kills the process that works on it.

        Raises:
            PayloadRejected: it can never be read.
            EngineFailed: it could not be read this time; ``unknown_engine`` where this machine does not have the
                engine, which another runner may.
        """
        pool = self._ocr if engine == ENGINE_OCR else await self._pool_of(engine)
        return await pool.read(data)

    def describe(self, engine: str) -> tuple[str, str] | None:
        """Return the name and version that results of an engine bear now; None where it has not started."""
        pool = self._ocr if engine == ENGINE_OCR else self._pools.get(engine)
        described = pool.describe() if pool is not None else {}
        return (described["engine"], described["version"]) if described.get("version") else None

    def recycle(self) -> None:
        """Replace the OCR engines' processes by fresh ones, which must read their test image."""
        self._ocr.recycle()

    async def _pool_of(self, engine: str) -> EnginePool:
        async with self._starting[engine]:
            pool = self._pools.get(engine)
            if pool is None:
                if engine not in plugins():
                    raise EngineFailed("unknown_engine", f"the engine {engine!r} is not installed on this runner")
                pool = self._make((sys.executable, "-P", "-m", "detectsched.engines.child", engine))
                try:
                    await pool.start()
                except ConfigurationError as error:
                    raise EngineUnavailable(error.detail) from None
                self._pools[engine] = pool
            return pool
