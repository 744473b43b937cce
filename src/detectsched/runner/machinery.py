"""What a runner reads payloads with: GPUs and their watch, engines, and what is known of images."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from detectsched.db.connection import Ledger
from detectsched.engines.rack import EngineRack
from detectsched.lifecycle import Service
from detectsched.ocr.pool import EnginePool
from detectsched.runner.gpu import GpuWatch
from detectsched.runner.gpus import chosen_gpus
from detectsched.runner.known_images import KnownImages
from detectsched.runner.visible import VISIBLE_DEVICES, number_gpus_by_bus
from detectsched.settings import OcrSettings, Settings
from detectsched.task import LANE_TEXT

_ENGINES_SHARE: Final = 0.95
"""Of the task's own time: a payload that makes engines hang is then known as the cause."""


@dataclass(frozen=True, slots=True)
class Machinery:
    """All of it is None in a runner that serves no lane with payloads; ``gpus`` also in one that uses no GPU."""

    pool: EnginePool | None = None
    engines: EngineRack | None = None
    images: KnownImages | None = None
    gpus: GpuWatch | None = None

    @classmethod
    def serving(
        cls,
        lanes: Sequence[str],
        settings: Settings,
        ledger: Ledger,
        *,
        command: Sequence[str],
        on_change: Callable[[], None],
    ) -> Machinery:
        """Put together what a runner of these lanes needs; nothing is started.

        Args:
            lanes: without one for payloads nothing is needed.
            settings: of the runner and its engines.
            ledger: where images are looked up that were read before.
            command: starts a process of the OCR engine.
            on_change: called when an engine begins or ceases to work.
        """
        if all(lane == LANE_TEXT for lane in lanes):
            return cls()
        uuids = chosen_gpus(settings.ocr.gpus, os.environ.get(VISIBLE_DEVICES))
        gpus = _gpu_watch(uuids) if settings.ocr.gpu else None
        pool = _pool(
            settings,
            command,
            settings.ocr,
            slots=engine_slots(settings),
            uuids=uuids,
            memory_of=gpus.held_by if gpus is not None else lambda _: None,
            on_change=on_change,
        )
        # The GPU is the OCR engine's; what another engine wants of it is not known.
        plugin = partial(_pool, settings, ocr=settings.ocr.on_cpu(), slots=settings.runner.ocr_slots)
        engines = EngineRack(pool, plugin)
        images = KnownImages(ledger, engines.describe, settings.ocr, on_alarm=engines.recycle)
        return cls(pool, engines, images, gpus)

    def services(self) -> list[Service]:
        """Return what is to be started, in this order."""
        return [service for service in (self.engines, self.gpus) if service is not None]

    def engine(self) -> str:
        """Return the OCR engine's name; empty before the start, and without one."""
        return "" if self.pool is None else str(self.pool.describe().get("engine", ""))

    def is_ready(self) -> bool:
        """Whether the engines work, as far as there are any."""
        return self.pool is None or self.pool.healthy

    def gpu_works(self) -> bool:
        """Whether an engine is on a GPU; also True where there is none to be on it."""
        return self.pool is None or self.pool.on_gpu

    def lacks_gpu(self, lane_is_for_gpus: bool) -> bool:
        """Whether the engines serve a lane for GPUs without one: from the start, or since it failed."""
        return lane_is_for_gpus and not (self.pool is not None and self.pool.on_gpu)


def engine_slots(settings: Settings) -> int:
    """Return how many engine processes a runner has: one a slot, and at least one on each of its GPUs."""
    return max(settings.runner.ocr_slots, len(settings.ocr.gpus))


def _pool(
    settings: Settings,
    command: Sequence[str],
    ocr: OcrSettings,
    *,
    slots: int,
    uuids: Sequence[str] = (),
    memory_of: Callable[[int], int | None] = lambda _: None,
    on_change: Callable[[], None] = lambda: None,
) -> EnginePool:
    return EnginePool(
        ocr,
        slots=slots,
        max_pixels=settings.api.max_image_pixels,
        task_timeout_seconds=_ENGINES_SHARE * settings.runner.task_timeout_seconds,
        command=command,
        gpu_uuids=uuids,
        gpu_memory_of=memory_of,
        on_change=on_change,
    )


def _gpu_watch(uuids: Sequence[str]) -> GpuWatch:
    number_gpus_by_bus()
    if uuids:
        return GpuWatch(",".join(uuids))
    # The engines work on the first GPU that they see: what happens on the others is not theirs.
    return GpuWatch(os.environ.get(VISIBLE_DEVICES), used=1)
