"""Decides whether this runner may take new work: foreign load, smoothed, with hysteresis, and a working engine.

Its own work is left out: of CPU, memory and GPU memory what its host's runners use is subtracted. What part of a GPU's
utilisation is their doing cannot be told, so utilisation counts only while this runner has nothing in hand; a runner
that is never idle is thus never pushed back by it, and other runners on the same GPU are foreign here.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection
from typing import Final

from detectsched.lifecycle import Loop
from detectsched.runner.gauge import Gauge
from detectsched.runner.gpu import GpuLoad, GpuState, GpuWatch
from detectsched.runner.probe import Load, Probe
from detectsched.settings import RunnerSettings
from detectsched.telemetry import get_logger

log = get_logger(__name__)

_SAMPLE_SECONDS: Final = 1.0
_IDLE_SECONDS: Final = 2.0
"""How long a GPU still counts as used by what has ended: NVML averages over up to a second."""


class Health(Loop):
    """Samples the machine each second.

    Args:
        settings: the watermarks.
        engine_ready: whether the engines can work.
        sibling_pids: the other runners of this host.
        idle_seconds: for how long nothing has been in hand.
        on_change: called when the runner's state changes, or whether it has a GPU: both decide what it is sent.
        gpus: watches the GPUs that the engines use; None: they use none.
        gpu_works: whether engines really work on them; what is there may have failed too often.
        probe: measures the machine.
    """

    def __init__(
        self,
        settings: RunnerSettings,
        *,
        engine_ready: Callable[[], bool],
        sibling_pids: Callable[[], Collection[int]],
        on_change: Callable[[], None],
        idle_seconds: Callable[[], float] = lambda: 0.0,
        gpus: GpuWatch | None = None,
        gpu_works: Callable[[], bool] = lambda: True,
        probe: Probe | None = None,
    ) -> None:
        super().__init__(_SAMPLE_SECONDS)
        self._probe = probe or Probe()
        self._engine_ready = engine_ready
        self._sibling_pids = sibling_pids
        self._on_change = on_change
        self._idle_seconds = idle_seconds
        self._gpus = gpus
        self._gpu_works = gpu_works
        self._cpu = Gauge("CPU load of others", settings.cpu_high_percent)
        self._memory = Gauge("memory use of others", settings.memory_high_percent)
        self._gpu_memory = Gauge("GPU memory use of others", settings.gpu_memory_high_percent)
        self._gpu_util = Gauge("GPU utilisation of others", settings.gpu_util_high_percent)
        self.load: Load | None = None
        self.gpu = GpuLoad()
        self.has_gpu = False
        self.state = "healthy"
        self.reason = ""
        self.stopping = False
        self.drained = False

    def may_work(self) -> bool:
        """Whether new work may be fetched now, and what was fetched be started."""
        return self.state == "healthy"

    def gpu_state(self) -> str:
        """Return ``ok``, ``busy``, ``unknown``, ``failed``, ``lost`` or ``absent`` and why, or '' if no GPU is used."""
        if self._gpus is None:
            return ""
        if not self._gpu_works():
            return "failed: engines failed on it and work on the CPU; it is probed again"
        busy = self._gpu_memory.pressed or self._gpu_util.pressed
        word = "busy" if busy and self.gpu.state is GpuState.OK else self.gpu.state.value
        return f"{word}: {self.gpu.note}" if self.gpu.note else word

    def set_drained(self, drained: bool) -> None:
        """Take nothing new while an operator drains this runner."""
        if drained is not self.drained:
            self.drained = drained
            self._decide()

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
        if self._gpus is not None:
            self._look_at_gpus(self._gpus.load(self.load.own_pids))
        self._decide()
        return self.state

    def _look_at_gpus(self, gpu: GpuLoad) -> None:
        self.gpu = gpu
        self._gpu_memory.update(gpu.foreign_memory)
        if gpu.util is None or self._idle_seconds() >= _IDLE_SECONDS:
            self._gpu_util.update(gpu.util)

    def _decide(self) -> None:
        before = self.state, self.has_gpu
        self.state, self.reason = self._judge()
        self.has_gpu = self.gpu.available > 0 and self._gpu_works()
        if (self.state, self.has_gpu) != before:
            log.info("runner state", state=self.state, reason=self.reason, gpu=self.gpu_state())
            self._on_change()

    def _judge(self) -> tuple[str, str]:
        gauges = (self._cpu, self._memory, self._gpu_memory, self._gpu_util)
        if self.stopping:
            return "stopping", "it is shutting down"
        if self.drained:
            return "stopping", "it is being drained"
        if self.gpu.state is GpuState.LOST:
            return "unhealthy", f"its GPU is lost ({self.gpu.note}): start it anew, in a container the container"
        if not self._engine_ready():
            return "busy", "its engine is not ready"
        if pressed := [gauge for gauge in gauges if gauge.pressed]:
            return "busy", "; ".join(map(str, pressed))
        return "healthy", ""
