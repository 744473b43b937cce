"""One engine process, seen from the runner: started, asked, watched, killed."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from detectsched.detection import EngineResult
from detectsched.errors import ConfigurationError, EngineFailed, PayloadRejected
from detectsched.ocr.childprocess import ChildGone, ChildProcess
from detectsched.ocr.cores import engine_threads
from detectsched.ocr.protocol import Answer, Broken, Done, Read, Ready, Rejected, Setup, Unfit
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

    It is never repaired: after a failure, a time-out or a cancelled read it is dead, and `EnginePool` starts another.
    """

    def __init__(self, settings: OcrSettings, *, slots: int, max_pixels: int, command: Sequence[str] = COMMAND) -> None:
        self._settings = settings
        self._setup = Setup(settings.model_dump(mode="json"), slots, max_pixels)
        self._environment = engine_environment(os.environ, engine_threads(settings.threads, slots))
        self._command = tuple(command)
        self._child: ChildProcess | None = None
        self._stopped = False
        self._too_large = False
        self._base_rss = 0
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
    def worn(self) -> bool:
        """Whether it has read so many images, or grown so much since its first, that it should be replaced."""
        grown = self.rss - self._base_rss if self._base_rss else 0
        return self.images >= self._settings.recycle_after_images or grown > self._settings.recycle_growth_mb * _MB

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

    async def read(self, data: bytes, timeout_seconds: float) -> EngineResult:
        """Read one image file.

        Raises:
            PayloadRejected: the image can never be read; the process lives on.
            EngineFailed: ``engine_crashed``, ``engine_timeout``, ``out_of_memory``, ``engine_error`` or
                ``engine_unavailable`` (not started, or stopped meanwhile). The process is dead then, as it is when the
                caller is cancelled.
        """
        if self._child is None:
            raise EngineFailed("engine_unavailable", "the OCR engine was not started")
        self.images += 1
        watch = asyncio.create_task(self._watch_memory())
        try:
            async with asyncio.timeout(timeout_seconds):
                answer = await self._child.ask(Read(self.images, data))
            result = self._judge(answer, self.images)
        except PayloadRejected:
            raise
        except TimeoutError:
            self.kill()
            raise EngineFailed("engine_timeout", f"the image was not read within {timeout_seconds:g} s") from None
        except ChildGone:
            raise await self._obituary(self._child) from None
        except BaseException:
            self.kill()
            raise
        finally:
            watch.cancel()
        self._base_rss = self._base_rss or self.rss
        return result

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

    def _judge(self, answer: Answer, serial: int) -> EngineResult:
        if not isinstance(answer, Done | Rejected | Broken) or answer.serial != serial:
            raise EngineFailed("engine_crashed", "the engine process sent an answer to another question")
        if isinstance(answer, Rejected):
            raise PayloadRejected(answer.reason, answer.detail)
        if isinstance(answer, Broken):
            raise EngineFailed(answer.reason, answer.detail)
        return EngineResult(self.engine, self.version, answer.lines, answer.width, answer.height, answer.seconds)

    async def _obituary(self, child: ChildProcess) -> EngineFailed:
        """Say what ended the process; its own words go to the log only, the detail is shown to the image's owner."""
        await child.ended()
        if self._stopped:
            return EngineFailed("engine_unavailable", "the OCR engines are stopped")
        log.error("engine process died", end=child.end, images=self.images, last_words=child.last_words)
        if self._too_large:
            limit = self._settings.max_memory_mb
            return EngineFailed("out_of_memory", f"the engine grew beyond {limit} MB on this image")
        return EngineFailed("engine_crashed", child.end)

    async def _watch_memory(self) -> None:
        """Kill the process when it grows beyond the limit; the pending read then learns why."""
        while self.alive:
            if self.rss > self._settings.max_memory_mb * _MB:
                self._too_large = True
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


def engine_environment(environment: Mapping[str, str], threads: int) -> dict[str, str]:
    """Return what an engine process may know of the runner's environment, with its threads set.

    The libraries below the engines (OpenMP, OpenBLAS) count the host's cores unless they are told.
    """
    kept = {name: value for name, value in environment.items() if name.startswith(_PASSED_ON)}
    return kept | {"OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)}
