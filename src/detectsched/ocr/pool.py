"""All engine processes of a runner: one per slot, each replaced when it dies or is worn."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from detectsched.detection import EngineResult
from detectsched.errors import EngineUnavailable
from detectsched.lifecycle import Service
from detectsched.ocr.batching import Batcher
from detectsched.ocr.ladder import read, read_many
from detectsched.ocr.process import COMMAND, EngineProcess
from detectsched.ocr.slot import Slot
from detectsched.settings import OcrSettings
from detectsched.telemetry import get_logger

log = get_logger(__name__)


class EnginePool(Service):
    """Reads images, as many at once as there are slots.

    Args:
        settings: of the engines.
        slots: how many there are.
        max_pixels: largest image that is decoded.
        task_timeout_seconds: longest time for one try at one image.
        command: the engine's program.
        gpu_uuids: the GPUs that the slots work on, in turn; none: on what the runner's environment shows.
        gpu_memory_of: what a process holds on GPUs in bytes; None where nobody can tell.
        on_change: called when slots begin or cease to work, or change between GPU and CPU.
    """

    def __init__(
        self,
        settings: OcrSettings,
        *,
        slots: int,
        max_pixels: int,
        task_timeout_seconds: float,
        command: Sequence[str] = COMMAND,
        gpu_uuids: Sequence[str] = (),
        gpu_memory_of: Callable[[int], int | None] = lambda _: None,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._settings = settings
        self._on_cpu = settings.on_cpu()
        self._count = slots
        self._max_pixels = max_pixels
        self._timeout = task_timeout_seconds
        self._command = command
        self._gpu_uuids = gpu_uuids
        self._gpu_memory_of = gpu_memory_of
        self._on_change = on_change
        self._processes: set[EngineProcess] = set()
        self._slots: list[Slot] = []
        self._idle: deque[Slot] = deque()
        self._room = asyncio.Semaphore(slots)
        self._changed = asyncio.Event()
        self._keepers: list[asyncio.Task[None]] = []
        self._replaced_before = 0
        self._batcher = (
            Batcher(self._read_many, most=settings.batch_images, wait_seconds=settings.batch_wait_ms / 1000)
            if settings.batch_images > 1
            else None
        )

    @property
    def healthy(self) -> bool:
        """Whether every slot has an engine or is just getting one; False while a slot's engine fails to start."""
        return bool(self._keepers) and not any(slot.failing for slot in self._slots)

    @property
    def on_gpu(self) -> bool:
        """Whether any slot works on a GPU; False also while all GPUs are given up for their failures."""
        return self._settings.gpu and not all(slot.gpu_down for slot in self._slots)

    @property
    def slots_off_gpu(self) -> int:
        """How many slots work on the CPU since their GPU failed."""
        return sum(slot.gpu_down for slot in self._slots)

    @property
    def replaced(self) -> int:
        """Engine processes replaced since the first start."""
        return self._replaced_before + sum(slot.replaced for slot in self._slots)

    async def start(self) -> None:
        """Start all engines, side by side.

        Raises:
            ConfigurationError: one of them does not start; none is left running.
        """
        if self._keepers:
            return
        slots = [self._new_slot(number) for number in range(self._count)]
        starting = [asyncio.create_task(slot.start()) for slot in slots]
        try:
            await asyncio.gather(*starting)
        except BaseException:
            for task in starting:
                task.cancel()
            await asyncio.wait(starting)
            await self._kill_all()
            raise
        self._replaced_before = self.replaced
        self._slots, self._idle = slots, deque(slots)
        self._keepers = [
            asyncio.create_task(slot.keep(), name=f"engine slot {number}") for number, slot in enumerate(slots)
        ]
        log.info("engines ready", slots=self._count, **self.describe())

    async def stop(self) -> None:
        """Kill all engines; reads that are under way fail."""
        keepers, self._keepers = self._keepers, []
        for keeper in keepers:
            keeper.cancel()
        if keepers:
            await asyncio.wait(keepers)
        self._changed.set()
        if self._batcher is not None:
            self._batcher.stop()
        stopping = [asyncio.create_task(slot.stop()) for slot in self._slots]
        await self._kill_all()
        if stopping:
            await asyncio.wait(stopping)

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
            As `ladder.read`.
        """
        if self._batcher is not None:
            return await self._batcher.read(data)
        async with self._room:
            slot = await self._take()
            try:
                return await read(slot, data, self._timeout)
            finally:
                self._idle.append(slot)

    async def _read_many(self, images: Sequence[bytes]) -> list[EngineResult | Exception]:
        async with self._room:
            slot = await self._take()
            try:
                return await read_many(slot, images, self._timeout)
            finally:
                self._idle.append(slot)

    def recycle(self) -> None:
        """Replace all engines by fresh ones, which read their test image first; no image is interrupted."""
        for slot in self._slots:
            slot.recycle()

    def pids(self) -> tuple[int, ...]:
        """Return the engine processes' ids, those still starting included: a runner's own load is theirs too."""
        return tuple(sorted(pid for process in self._processes if (pid := process.pid) is not None))

    def describe(self) -> dict[str, str]:
        """Return the engine and its version; empty before the start."""
        return (self._slots[0].describe() if self._slots else {}) or {"engine": "", "version": ""}

    async def _take(self) -> Slot:
        """Return an idle slot, one with an engine rather than one that waits for it."""
        if not self._keepers:
            raise EngineUnavailable("the OCR engines are stopped")
        limit = self._settings.start_timeout_seconds
        try:
            async with asyncio.timeout(limit):
                while self._keepers:
                    if (slot := next((slot for slot in self._idle if slot.ready), None)) is not None:
                        self._idle.remove(slot)
                        return slot
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise EngineUnavailable(f"no OCR engine could be started within {limit:g} s") from None
        raise EngineUnavailable("the OCR engines are stopped")

    def _new_slot(self, number: int) -> Slot:
        uuid = self._gpu_uuids[number % len(self._gpu_uuids)] if self._gpu_uuids else None

        async def spawn(on_gpu: bool) -> EngineProcess:
            return await self._spawn(on_gpu, uuid)

        return Slot(number, self._settings, spawn=spawn, discard=self._processes.discard, changed=self._slot_changed)

    def _slot_changed(self) -> None:
        self._changed.set()
        self._on_change()

    async def _spawn(self, on_gpu: bool, gpu_uuid: str | None) -> EngineProcess:
        process = EngineProcess(
            self._settings if on_gpu else self._on_cpu,
            slots=self._count,
            max_pixels=self._max_pixels,
            command=self._command,
            gpu_uuid=gpu_uuid if on_gpu else None,
            gpu_memory_of=self._gpu_memory_of,
        )
        self._processes.add(process)
        try:
            await process.start()
        except BaseException:
            self._processes.discard(process)
            raise
        return process

    async def _kill_all(self) -> None:
        await asyncio.gather(*(process.stop() for process in self._processes))
        self._processes.clear()
