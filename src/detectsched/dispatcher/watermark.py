"""Publishes the level of the system: how much waits, how many work, how fast it drains, and what each lane needs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from detectsched.clock import monotonic, utc_now
from detectsched.db.backlog import backlog_of_lanes
from detectsched.db.connection import Ledger
from detectsched.errors import StoreUnavailable
from detectsched.lifecycle import Loop
from detectsched.queueing.queue import Queue, WorkerRecord, scaling_of
from detectsched.settings import Settings
from detectsched.task import LaneBacklog
from detectsched.telemetry import get_logger

log = get_logger(__name__)

_SMOOTHING: Final = 0.3
"""Weight of the newest interval in the drain rate (exponential smoothing)."""


class Watermark(Loop):
    """The original's record (total_pending, mac_count, active_workers, timestamp), plus drain rate and lanes."""

    def __init__(self, queue: Queue, ledger: Ledger, settings: Settings) -> None:
        super().__init__(settings.scheduler.watermark_interval_seconds)
        self._queue = queue
        self._ledger = ledger
        self._settings = settings
        self._lanes = settings.lanes
        self._ttl = settings.scheduler.watermark_ttl_seconds
        self._last: tuple[float, int] | None = None
        self._rate: float | None = None

    async def run_once(self) -> dict[str, object]:
        """Measure and publish; return what was published."""
        level = await self._queue.level(self._lanes)
        workers = await self._queue.registry.workers()
        self._measure(sum(level[f"completed:{lane}"] for lane in self._lanes), level["total_pending"])
        document: dict[str, object] = {
            "total_pending": level["total_pending"],
            "mac_count": level["mac_count"],
            "active_workers": len(workers),
            "timestamp": utc_now().isoformat(),
            "drain_per_second": None if self._rate is None else round(self._rate, 4),
            "outstanding": {lane: level[f"outstanding:{lane}"] for lane in self._lanes},
            "lanes": await self._scalings(workers),
        }
        await self._queue.publish_watermark(json.dumps(document), ttl_seconds=self._ttl)
        return document

    async def _scalings(self, workers: Sequence[WorkerRecord]) -> dict[str, Any]:
        try:
            backlogs = await backlog_of_lanes(self._ledger)
        except StoreUnavailable as error:
            # The rest is Redis' own, and overload answers are computed from it.
            log.debug("the level is published without lanes", error=error.detail)
            return {}
        scalings = {}
        for lane in self._lanes:
            state = await self._queue.views.lane(lane)
            scalings[lane] = asdict(
                scaling_of(
                    lane,
                    backlogs.get(lane, LaneBacklog()),
                    seconds_per_cost=state.seconds_per_cost,
                    workers=workers,
                    runner=self._settings.runner,
                    target_seconds=self._settings.api.scaling_target_seconds,
                    paused=state.paused_ms > 0,
                )
            )
        return scalings

    def _measure(self, completed: int, pending: int) -> None:
        now = monotonic()
        if self._last is not None and now > self._last[0] and completed >= self._last[1]:
            rate = (completed - self._last[1]) / (now - self._last[0])
            # An idle system drains nothing because nothing waits: that says nothing about its speed.
            if pending or rate:
                self._rate = rate if self._rate is None else _SMOOTHING * rate + (1 - _SMOOTHING) * self._rate
        self._last = now, completed
