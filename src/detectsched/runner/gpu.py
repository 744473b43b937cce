"""How loaded the GPUs are that this runner uses: sampled in a thread, so that a driver that hangs stops nobody.

Memory is what counts first, for a GPU whose kernels never pause may still have room. It has not run on a real GPU yet.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import pynvml

from detectsched.clock import monotonic
from detectsched.lifecycle import Service
from detectsched.runner.nvml import GpuSample, Nvml
from detectsched.telemetry import get_logger

log = get_logger(__name__)

_SAMPLE_SECONDS: Final = 1.0
_STALE_SECONDS: Final = 10.0
_LOST_AFTER: Final = 5
"""Failures in a row, one a second, until a GPU counts as lost: one may be a driver that is being reloaded."""
_FIRST_SECONDS: Final = 5.0
_END_SECONDS: Final = 2.0
_FINAL: Final = (
    pynvml.NVMLError_GpuIsLost,
    pynvml.NVMLError_ResetRequired,
    pynvml.NVMLError_DriverNotLoaded,
    pynvml.NVMLError_LibRmVersionMismatch,
    pynvml.NVMLError_GpuNotFound,
    pynvml.NVMLError_Unknown,
)
"""Answers of a driver that has been working before, after which asking again seldom helps. "Unknown Error" is what a
container gets that has lost its GPUs, as by a reload of systemd (NVIDIA/nvidia-container-toolkit issues 48 and 251)."""


class GpuState(StrEnum):
    """What is known of the GPUs."""

    ABSENT = "absent"
    """There is none, no driver, or none that this runner may use."""
    OK = "ok"
    """They were measured just now."""
    UNKNOWN = "unknown"
    """They cannot be measured at present: work goes on."""
    LOST = "lost"
    """They are gone until the process, and in a container the container, is started anew."""


@dataclass(frozen=True, slots=True)
class GpuLoad:
    """``available`` GPUs are in use; of each figure, in percent, that of the busiest, and None if it is unknown.

    ``memory`` is what all processes hold; ``foreign_memory`` leaves out what the runners of this host hold.
    """

    state: GpuState = GpuState.ABSENT
    note: str = ""
    available: int = 0
    util: float | None = None
    memory: float | None = None
    foreign_memory: float | None = None


def load_of(samples: Sequence[GpuSample], own_pids: Collection[int]) -> GpuLoad:
    """Sum up what NVML said; ``own_pids`` are the processes of this host's runners.

    Where NVML does not show what they hold, as in most containers, nobody can say whether a full GPU is full of us. The
    foreign share is then unknown, for a runner must not be pushed back by its own work.
    """
    foreign = [_foreign_memory(sample, own_pids) for sample in samples]
    return GpuLoad(
        GpuState.OK,
        "" if any(share is not None for share in foreign) else "NVML does not tell whose the memory is",
        len(samples),
        util=_busiest([sample.util for sample in samples]),
        memory=_busiest([_percent(sample, 0) for sample in samples]),
        foreign_memory=_busiest(foreign),
    )


def _foreign_memory(sample: GpuSample, own_pids: Collection[int]) -> float | None:
    own = [held for pid, held in (sample.memory_of or {}).items() if pid in own_pids]
    return _percent(sample, sum(own)) if own else None


def _percent(sample: GpuSample, without: int) -> float | None:
    if sample.memory is None or sample.memory[0] <= 0:
        return None
    total, used = sample.memory
    return 100 * max(0, used - without) / total


def _busiest(values: Sequence[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the thread has left for the others to read: replaced as a whole, so that no lock is needed."""

    state: GpuState = GpuState.ABSENT
    note: str = ""
    samples: tuple[GpuSample, ...] = ()
    at: float = 0.0


class _Sampler:
    """The thread's part: one session for the life of the process, opened anew only when it has failed."""

    def __init__(self, visible: str | None, used: int | None) -> None:
        self._visible = visible
        self._used = used
        self._session: Nvml | None = None
        self._failures = 0
        self.seen = _Seen()
        self.first: Future[None] = Future()
        """Done when there is something to see."""

    def run(self, stopped: threading.Event, pause_seconds: float, ended: Future[None]) -> None:
        """Sample until told to stop; ``ended`` is given what went wrong here."""
        try:
            self.sample()
            self.first.set_result(None)
            while not stopped.is_set():
                self.sample()
                stopped.wait(pause_seconds)
            self._close()
        except BaseException as error:  # noqa: BLE001 - it is raised by whoever waits for the service
            ended.set_exception(error)
        else:
            ended.set_result(None)

    def sample(self) -> None:
        """Take one sample of every GPU in use."""
        try:
            if self._session is None:
                self._session = Nvml(self._visible, self._used)
            samples = tuple(self._session.sample())
        except pynvml.NVMLError as error:
            self._close()
            self._see(self._failed(error))
        else:
            self._failures = 0
            state, note = (GpuState.OK, "") if samples else (GpuState.ABSENT, "no GPU is visible")
            self._see(_Seen(state, note, samples, monotonic()))

    def _failed(self, error: pynvml.NVMLError) -> _Seen:
        said = f"NVML: {error}"
        if not self.seen.samples:
            # It has never answered: there is no driver here, or this container is not shown it.
            return _Seen(GpuState.ABSENT, said)
        self._failures += isinstance(error, _FINAL)
        state = GpuState.UNKNOWN if self._failures < _LOST_AFTER else GpuState.LOST
        return replace(self.seen, state=state, note=said)

    def _see(self, seen: _Seen) -> None:
        if (seen.state, seen.note) != (self.seen.state, self.seen.note):
            log.info("gpu state", state=seen.state.value, note=seen.note, gpus=[each.uuid for each in seen.samples])
        self.seen = seen

    def _close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()


class GpuWatch(Service):
    """Samples once a second; `load` never waits.

    Args:
        visible: the value of CUDA_VISIBLE_DEVICES, or None.
        used: how many of the visible GPUs are used, from the first on; None: all.
        sample_seconds: how often to look.
        stale_seconds: after which time a sample is worth nothing any more.
    """

    def __init__(
        self,
        visible: str | None,
        *,
        used: int | None = None,
        sample_seconds: float = _SAMPLE_SECONDS,
        stale_seconds: float = _STALE_SECONDS,
    ) -> None:
        self._visible = visible
        self._used = used
        self._sample_seconds = sample_seconds
        self._stale_seconds = stale_seconds
        self._sampler = _Sampler(visible, used)
        self._stopped = threading.Event()
        self._ended: Future[None] | None = None
        self._thread: threading.Thread | None = None

    def load(self, own_pids: Collection[int]) -> GpuLoad:
        """Return what is known at this moment."""
        seen = self._sampler.seen
        state, note, age = seen.state, seen.note, monotonic() - seen.at
        if state is GpuState.OK and age > self._stale_seconds:
            state, note = GpuState.UNKNOWN, f"NVML has not answered for {age:.0f} s"
        if state is GpuState.OK:
            return load_of(seen.samples, own_pids)
        return GpuLoad(state, note, len(seen.samples) if state is GpuState.UNKNOWN else 0)

    def held_by(self, pid: int) -> int | None:
        """Return the bytes that a process holds on these GPUs; None where that cannot be told at the moment."""
        told = [sample.memory_of for sample in self._sampler.seen.samples if sample.memory_of is not None]
        if monotonic() - self._sampler.seen.at > self._stale_seconds or not any(pid in each for each in told):
            return None
        return sum(each.get(pid, 0) for each in told)

    async def start(self) -> None:
        """Begin to sample; wait for the first sample, but not long: what has a GPU must not be announced without."""
        if self._ended is None:
            # All of it new: the thread of an earlier start may still hang in the driver.
            self._sampler = _Sampler(self._visible, self._used)
            self._stopped, self._ended = threading.Event(), Future()
            arguments = (self._stopped, self._sample_seconds, self._ended)
            # A daemon: such a thread must not keep the process from ending.
            self._thread = threading.Thread(target=self._sampler.run, args=arguments, name="nvml", daemon=True)
            self._thread.start()
            first = [asyncio.wrap_future(future) for future in (self._sampler.first, self._ended)]
            await asyncio.wait(first, timeout=_FIRST_SECONDS, return_when=asyncio.FIRST_COMPLETED)

    async def wait(self) -> None:
        """Raise what killed the thread."""
        if self._ended is None:
            return
        await asyncio.shield(asyncio.wrap_future(self._ended))

    async def stop(self) -> None:
        """Stop sampling, without waiting long for a driver that hangs."""
        ended, thread, self._ended = self._ended, self._thread, None
        if ended is not None and thread is not None:
            self._stopped.set()
            done, _ = await asyncio.wait([asyncio.wrap_future(ended)], timeout=_END_SECONDS)
            if done:
                thread.join()
