"""Reports this runner to the registry: at every heartbeat, and at once when its state changes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Final

import psutil

from detectsched import __version__
from detectsched.clock import utc_now
from detectsched.errors import StoreUnavailable
from detectsched.lifecycle import Loop
from detectsched.ocr.pool import EnginePool
from detectsched.queueing.queue import Queue, WorkerRecord
from detectsched.runner.desk import Desk
from detectsched.runner.health import Health
from detectsched.runner.identity import Identity
from detectsched.runner.known_images import KnownImages
from detectsched.runner.matchers import CompiledLists
from detectsched.settings import RunnerSettings
from detectsched.telemetry import get_logger

log = get_logger(__name__)

_PUBLISH_SECONDS: Final = 2.0


class Heartbeat(Loop):
    """A runner is advertised only while it can claim: the record is written by the loop that can reach Redis."""

    def __init__(
        self,
        queue: Queue,
        identity: Identity,
        settings: RunnerSettings,
        *,
        slots: Mapping[str, int],
        name: str,
        engine: Callable[[], str],
        pool: EnginePool | None = None,
        images: KnownImages | None = None,
        matchers: CompiledLists | None = None,
    ) -> None:
        super().__init__(settings.heartbeat_seconds)
        self._queue = queue
        self._identity = identity
        self._settings = settings
        self._slots = dict(slots)
        self._runner_name = name
        self._engine = engine
        self._pool = pool
        self._images = images
        self._matchers = matchers
        self._announced: tuple[str, int] | None = None
        self._written = asyncio.Event()
        self._siblings: frozenset[int] = frozenset()
        self.health: Health | None = None
        self.desk: Desk | None = None
        self.fenced: Callable[[], int] = lambda: 0

    def sibling_pids(self) -> frozenset[int]:
        """Return the other runners of this host, as of the last heartbeat."""
        return self._siblings

    async def run_once(self) -> WorkerRecord:
        """Write the record for another TTL."""
        record = self._record()
        said = record.state, record.gpu_available
        changed = said != self._announced
        await self._queue.registry.report(
            record, ttl_seconds=self._settings.ttl_seconds, changed=changed, lanes=tuple(self._slots)
        )
        self._announced = said
        self._written.set()
        workers = await self._queue.registry.workers()
        self._siblings = frozenset(worker.pid for worker in workers if worker.hostname == self._identity.hostname)
        return record

    async def published(self) -> None:
        """Return when the registry knows this runner's present state, or after 2 s: Redis may be away."""
        assert self.health is not None  # noqa: S101 - wired by the daemon before anything starts
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PUBLISH_SECONDS):
                while self._announced != (self.health.state, int(self.health.has_gpu)):
                    self._written.clear()
                    self.wake()
                    await self._written.wait()

    async def stop(self) -> None:
        """Stop reporting, and be forgotten at once instead of after the TTL."""
        was_running = self._task is not None
        await super().stop()
        if was_running:
            try:
                await self._queue.registry.remove(f"{self._identity.hostname}:{self._identity.pid}", tuple(self._slots))
            except StoreUnavailable as error:
                log.warning("could not sign off, forgotten after the TTL", error=error.detail)

    def _record(self) -> WorkerRecord:
        assert self.health is not None  # noqa: S101 - wired by the daemon before anything starts
        assert self.desk is not None  # noqa: S101
        load, gpu, images = self.health.load, self.health.gpu, self._images
        return WorkerRecord(
            hostname=self._identity.hostname,
            pid=self._identity.pid,
            gpu_available=int(self.health.has_gpu),
            gpu_util=None if gpu.util is None else round(gpu.util, 1),
            gpu_memory_util=None if gpu.memory is None else round(gpu.memory, 1),
            cpu_count=psutil.cpu_count() or 1,
            cpu_percent=round(load.cpu_percent, 1) if load else 0.0,
            memory_total=load.memory_total if load else 0,
            memory_available=load.memory_available if load else 0,
            memory_percent=round(load.memory_percent, 1) if load else 0.0,
            active_tasks=len(self.desk.jobs()),
            last_heartbeat=utc_now().isoformat(),
            consumer=self._identity.consumer,
            label=self._runner_name,
            slots=",".join(f"{lane}={count}" for lane, count in self._slots.items()),
            state=self.health.state,
            reason=self.health.reason,
            gpu_state=self.health.gpu_state(),
            engine=self._engine(),
            version=__version__,
            images_read=images.read if images else 0,
            images_reused=images.reused if images else 0,
            images_poison=images.poison if images else 0,
            engines_replaced=self._pool.replaced if self._pool else 0,
            fenced=self.fenced(),
            empty_share=round(images.empty.lately, 3) if images else 0.0,
            empty_alarm=int(images.empty.alarmed) if images else 0,
            word_lists=self._matchers.described() if self._matchers else "",
        )
