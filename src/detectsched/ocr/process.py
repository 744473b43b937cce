"""One engine process, seen from the runner: started, asked, watched, killed."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from detectsched.detection import EngineResult
from detectsched.errors import ConfigurationError, EngineFailed, EngineUnavailable, PayloadRejected
from detectsched.ocr.childprocess import ChildGone, ChildProcess
from detectsched.ocr.cores import engine_threads
from detectsched.ocr.faults import Fault, fault_in
from detectsched.ocr.protocol import (
    Answer,
    Broken,
    Done,
    DoneMany,
    Read,
    ReadMany,
    Ready,
    Rejected,
    Setup,
    Unfit,
)
from detectsched.settings import OcrSettings
from detectsched.telemetry import get_logger

log = get_logger(__name__)

COMMAND: Final = (sys.executable, "-P", "-m", "detectsched.ocr.child")
"""``-P``: a file in the working directory must not be taken for one of the engine's modules."""

_MEMORY_LOOK_SECONDS: Final = 0.2
_MB: Final = 1024 * 1024
_PASSED_ON: Final = (
    "PATH", "HOME", "USER", "LANG", "LC_", "TZ", "TMPDIR", "XDG_", "PYTHON", "VIRTUAL_ENV", "LD_", "SSL_",
    "CUDA_", "NVIDIA_", "OMP_", "KMP_", "MKL_", "OPENBLAS_", "ORT_", "FLAGS_", "GLOG_", "PADDLE_",
)  # fmt: skip
"""Beginnings of the environment variables an engine gets: no passwords, no keys."""


class EngineProcess:
    """A child process with one engine; reads one image at a time.

    It is never repaired: after a failure, a time-out or a cancelled read it is dead, and its `Slot` starts another.

    Args:
        settings: what the engine is told; ``gpu`` says whether this one works on a GPU.
        slots: how many engines share this machine's cores.
        max_pixels: largest image that is decoded.
        command: the program.
        gpu_uuid: the only GPU that it is shown; None: those that the runner sees.
        gpu_memory_of: what a process holds on GPUs in bytes; None where nobody can tell.
    """

    def __init__(
        self,
        settings: OcrSettings,
        *,
        slots: int,
        max_pixels: int,
        command: Sequence[str] = COMMAND,
        gpu_uuid: str | None = None,
        gpu_memory_of: Callable[[int], int | None] = lambda _: None,
    ) -> None:
        self._settings = settings
        self._setup = Setup(settings.model_dump(mode="json"), slots, max_pixels)
        self._environment = engine_environment(os.environ, engine_threads(settings.threads, slots), gpu_uuid)
        self._command = tuple(command)
        self._gpu_memory_of = gpu_memory_of
        self._child: ChildProcess | None = None
        self._stopped = False
        self._base_rss = 0
        self._base_gpu_memory: int | None = None
        self.gpu = settings.gpu
        """Whether it works on a GPU."""
        self.over_limit = False
        """Whether it was killed for being larger than an engine may be."""
        self.engine = ""
        self.version = ""
        self.images = 0
        """Images it was given so far."""

    @property
    def alive(self) -> bool:
        """Whether it can read; False from the moment it is killed."""
        return self._child is not None and self._child.alive

    @property
    def pid(self) -> int | None:
        """The process id while it lives."""
        return self._child.pid if self._child is not None and self._child.alive else None

    @property
    def rss(self) -> int:
        """Resident memory in bytes; 0 for a dead process."""
        return self._child.rss if self._child is not None else 0

    @property
    def memory_limit_mb(self) -> int:
        """How large it may be."""
        return self._settings.max_memory_mb

    @property
    def worn(self) -> bool:
        """Whether it has read so many images, or grown so much since its first, that it should be replaced."""
        settings = self._settings
        if self.images >= settings.recycle_after_images:
            return True
        grown = self.rss - self._base_rss if self._base_rss else 0
        held, base = self._gpu_memory(), self._base_gpu_memory
        grown_on_gpu = held - base if held is not None and base is not None else 0
        return grown > settings.recycle_growth_mb * _MB or grown_on_gpu > settings.recycle_gpu_growth_mb * _MB

    async def start(self) -> None:
        """Start the process and wait until its engine has read a test image.

        Raises:
            ConfigurationError: it does not become ready; with what it said.
        """
        limit = self._settings.start_timeout_seconds
        child = self._child = await ChildProcess.spawn(self._command, self._environment)
        try:
            async with asyncio.timeout(limit):
                ready = _ready(await child.ask(self._setup))
        except TimeoutError:
            await self.stop()
            raise ConfigurationError(f"the OCR engine was not ready within {limit:g} s{_saying(child)}") from None
        except ChildGone:
            await child.ended()
            raise ConfigurationError(f"the OCR engine did not start: {child.end}{_saying(child)}") from None
        except BaseException:
            await self.stop()
            raise
        self.engine, self.version = ready.engine, ready.version

    async def read(self, data: bytes, timeout_seconds: float, *, thrifty: bool = False) -> EngineResult:
        """Read one image file, ``thrifty`` with as little memory as that can be done with.

        Raises:
            PayloadRejected: the image can never be read; the process lives on.
            EngineUnavailable: it was not started, or is stopped meanwhile.
            EngineFailed: with a `Fault` as its reason. The process is dead then, as it is when the caller is cancelled.
        """
        answer = await self._ask(lambda serial: Read(serial, data, thrifty), 1, timeout_seconds)
        if isinstance(answer, Rejected):
            raise PayloadRejected(answer.reason, answer.detail)
        if isinstance(answer, Done):
            return self._result(answer)
        self.kill()
        raise EngineFailed(Fault.CRASHED.value, "the engine process sent an answer to another question")

    async def _ask(self, request: Callable[[int], Read | ReadMany], images: int, timeout_seconds: float) -> Answer:
        """Return the answer to this very request; for anything else the process dies, and what happened is raised."""
        if self._child is None:
            raise EngineUnavailable("the OCR engine was not started")
        self.images += images
        serial = self.images
        watch = asyncio.create_task(self._watch_memory())
        try:
            async with asyncio.timeout(timeout_seconds):
                answer = self._checked(await self._child.ask(request(serial)), serial)
        except TimeoutError:
            self.kill()
            raise EngineFailed(Fault.TIMEOUT.value, f"the image was not read within {timeout_seconds:g} s") from None
        except ChildGone:
            raise await self._obituary(self._child) from None
        except BaseException:
            self.kill()
            raise
        finally:
            watch.cancel()
        if not self._base_rss:
            self._base_rss, self._base_gpu_memory = self.rss, self._gpu_memory()
        return answer

    async def read_many(self, images: Sequence[bytes], timeout_seconds: float) -> list[EngineResult | PayloadRejected]:
        """Read several image files together; an answer for each, in their order.

        Raises:
            As `read`; then nothing is known of any of them.
        """
        answer = await self._ask(lambda serial: ReadMany(serial, tuple(images)), len(images), timeout_seconds)
        if not isinstance(answer, DoneMany) or len(answer.answers) != len(images):
            # One too few, and every text after it would be another image's.
            self.kill()
            raise EngineFailed(Fault.CRASHED.value, f"the engine process answered {len(images)} images otherwise")
        return [
            PayloadRejected(each.reason, each.detail) if isinstance(each, Rejected) else self._result(each)
            for each in answer.answers
        ]

    def kill(self) -> None:
        """Kill the process and all it started."""
        if self._child is not None:
            self._child.kill()

    async def stop(self) -> None:
        """Kill the process and wait until it is gone. It has nothing to save, so it is not asked."""
        self._stopped = True
        self.kill()
        await self.ended()

    async def retire(self) -> None:
        """Stop the process after the image it is reading."""
        if self._child is not None:
            await self._child.idle()
        await self.stop()

    async def ended(self) -> None:
        """Wait until the process is gone, for whatever reason."""
        if self._child is not None:
            await self._child.ended()

    def _checked(self, answer: Answer, serial: int) -> Answer:
        if isinstance(answer, Ready | Unfit) or answer.serial != serial:
            raise EngineFailed(Fault.CRASHED.value, "the engine process sent an answer to another question")
        if isinstance(answer, Broken):
            raise EngineFailed(answer.reason, answer.detail)
        return answer

    def _result(self, done: Done) -> EngineResult:
        return EngineResult(self.engine, self.version, done.lines, done.width, done.height, done.seconds)

    async def _obituary(self, child: ChildProcess) -> EngineFailed:
        """Say what ended the process; its own words go to the log only, the detail is shown to the image's owner."""
        await child.ended()
        if self._stopped:
            return EngineUnavailable("the OCR engines are stopped")
        log.error("engine process died", end=child.end, images=self.images, last_words=child.last_words)
        if self.over_limit:
            limit = self._settings.max_memory_mb
            return EngineFailed(Fault.OUT_OF_MEMORY.value, f"the engine grew beyond {limit} MB on this image")
        return EngineFailed(fault_in(child.last_words, Fault.CRASHED).value, child.end)

    def _gpu_memory(self) -> int | None:
        return None if self.pid is None or not self.gpu else self._gpu_memory_of(self.pid)

    async def _watch_memory(self) -> None:
        """Kill the process when it grows beyond the limit; the pending read then learns why."""
        while self.alive:
            if self.rss > self._settings.max_memory_mb * _MB:
                self.over_limit = True
                self.kill()
                return
            await asyncio.sleep(_MEMORY_LOOK_SECONDS)


def _ready(answer: Answer) -> Ready:
    if isinstance(answer, Ready):
        return answer
    raise ConfigurationError(
        answer.detail if isinstance(answer, Unfit) else "the OCR engine process did not say that it is ready"
    )


def _saying(child: ChildProcess) -> str:
    return f"; it said: {child.last_words}" if child.last_words else ""


def engine_environment(environment: Mapping[str, str], threads: int, gpu_uuid: str | None = None) -> dict[str, str]:
    """Return what an engine process may know of the runner's environment, with its threads and its GPU set.

    The libraries below the engines (OpenMP, OpenBLAS) count the host's cores unless they are told.
    """
    kept = {name: value for name, value in environment.items() if name.startswith(_PASSED_ON)}
    if gpu_uuid is not None:
        # By UUID: an index means another GPU to whoever counts in another order.
        kept["CUDA_VISIBLE_DEVICES"] = gpu_uuid
    return kept | {"OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)}
