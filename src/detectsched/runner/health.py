"""Decides whether this runner may take new work: foreign load, smoothed, with hysteresis, and a working engine."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection
from typing import Final

from detectsched.lifecycle import Loop
from detectsched.runner.gpu import GpuLoad, measure_gpu
from detectsched.runner.probe import Load, Probe
from detectsched.settings import RunnerSettings
from detectsched.telemetry import get_logger

log = get_logger(__name__)

_SAMPLE_SECONDS: Final = 1.0
_SMOOTHING: Final = 0.3
"""Weight of the newest sample: a load must last for some seconds before it counts."""
_RELEASE: Final = 10.0
"""Percentage points below the watermark at which a pressed runner takes work again."""


class Gauge:
    """One smoothed load with two thresholds, so that a value near the watermark does not flap."""

    def __init__(self, name: str, high: float) -> None:
        self.name = name
        self.high = high
        self.value = 0.0
        self.pressed = False

    def update(self, sample: float) -> None:
        """Take another sample, in percent."""
        self.value = _SMOOTHING * sample + (1 - _SMOOTHING) * self.value
        self.pressed = self.value > (self.high - _RELEASE if self.pressed else self.high)


class Health(Loop):
    """Samples the machine each second; ``on_change`` is called when the runner's state changes."""

    def __init__(
        self,
        settings: RunnerSettings,
        *,
        engine_ready: Callable[[], bool],
        sibling_pids: Callable[[], Collection[int]],
        on_change: Callable[[], None],
        uses_gpu: bool,
    ) -> None:
        super().__init__(_SAMPLE_SECONDS)
        self._probe = Probe()
        self._engine_ready = engine_ready
        self._sibling_pids = sibling_pids
        self._on_change = on_change
        self._uses_gpu = uses_gpu
        self._cpu = Gauge("CPU load of others", settings.cpu_high_percent)
        self._memory = Gauge("memory use of others", settings.memory_high_percent)
        self._gpu_memory = Gauge("GPU memory use", settings.gpu_memory_high_percent)
        self.load: Load | None = None
        self.gpu = GpuLoad()
        self.state = "healthy"
        self.reason = ""
        self.stopping = False

    def may_fetch(self) -> bool:
        """Whether new work may be taken now."""
        return self.state == "healthy"

    def announce_stop(self) -> None:
        """Take no new work any more, and say so before anything is given back."""
        self.stopping = True
        self._decide()

    async def run_once(self) -> str:
        """Take a sample; return the state."""
        own = {os.getpid(), *self._sibling_pids()}
        self.load = await asyncio.to_thread(self._probe.measure, own)
        self._cpu.update(self.load.foreign_cpu_percent)
        self._memory.update(self.load.foreign_memory_percent)
        if self._uses_gpu:
            self.gpu = await asyncio.to_thread(measure_gpu)
            self._gpu_memory.update(self.gpu.memory_util)
        self._decide()
        return self.state

    def _decide(self) -> None:
        pressed = [gauge for gauge in (self._cpu, self._memory, self._gpu_memory) if gauge.pressed]
        if self.stopping:
            state, reason = "stopping", "it is shutting down"
        elif not self._engine_ready():
            state, reason = "busy", "its engine is not ready"
        elif pressed:
            state = "busy"
            reason = "; ".join(f"{gauge.name} {gauge.value:.0f} % > {gauge.high:.0f} %" for gauge in pressed)
        else:
            state, reason = "healthy", ""
        if state != self.state:
            log.info("runner state", state=state, reason=reason)
            self.state, self.reason = state, reason
            self._on_change()
