"""One engine process, seen from the runner: started, asked, watched, killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Final

import psutil

from detectsched.detection import EngineResult
from detectsched.errors import ConfigurationError, EngineFailed, PayloadRejected
from detectsched.ocr.cores import engine_threads
from detectsched.ocr.protocol import (
    Answer,
    Broken,
    Done,
    ProtocolError,
    Read,
    Ready,
    Rejected,
    Request,
    Setup,
    Unfit,
    frame,
    receive_answer,
)
from detectsched.settings import OcrSettings
from detectsched.telemetry import get_logger

log = get_logger(__name__)

COMMAND: Final = (sys.executable, "-P", "-m", "detectsched.ocr.child")
"""``-P``: a file in the working directory must not be taken for one of the engine's modules."""

_MEMORY_LOOK_SECONDS: Final = 0.2
_LAST_WORDS: Final = 2000
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
        self._process: asyncio.subprocess.Process | None = None
        self._life: asyncio.Task[None] | None = None
        # Held while an answer is awaited: one image at a time, and one reader of the pipe.
        self._asking = asyncio.Lock()
        self._last_words = bytearray()
        self._killed = False
        self._too_large = False
        self._base_rss = 0
        self.engine = ""
        self.version = ""
        self.images = 0

    @property
    def pid(self) -> int | None:
        """The process id while it lives."""
        return self._process.pid if self._process is not None and self.alive else None

    @property
    def alive(self) -> bool:
        """Whether the process runs; a killed one does not, even before the kernel has said so."""
        return self._life is not None and not self._life.done() and not self._killed

    @property
    def rss(self) -> int:
        """Resident memory in bytes; 0 for a dead process."""
        with contextlib.suppress(psutil.Error):
            if (pid := self.pid) is not None:
                return int(psutil.Process(pid).memory_info().rss)
        return 0

    @property
    def worn(self) -> bool:
        """Whether it has read so many images, or grown so much since its first, that it should be replaced."""
        grown = self.rss - self._base_rss if self.images else 0
        return self.images >= self._settings.recycle_after_images or grown > self._settings.recycle_growth_mb * _MB

    async def start(self) -> None:
        """Start the process and wait until its engine has read a test image.

        Raises:
            ConfigurationError: it does not become ready; with what it said.
        """
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._environment,
            # A group of its own: Ctrl-C does not reach it, and whatever it starts dies with it.
            start_new_session=True,
        )
        self._life = asyncio.create_task(self._live(self._process), name=f"engine process {self._process.pid}")
        limit = self._settings.start_timeout_seconds
        try:
            async with asyncio.timeout(limit):
                answer = await self._ask(self._setup)
        except TimeoutError:
            await self.stop()
            raise ConfigurationError(f"the OCR engine was not ready within {limit:g} s{self._said()}") from None
        except (EOFError, ConnectionError, ProtocolError) as error:
            await self.stop()
            raise ConfigurationError(f"the OCR engine did not start: {self._end_of_it(error)}{self._said()}") from error
        except BaseException:
            await self.stop()
            raise
        if not isinstance(answer, Ready):
            await self.stop()
            raise ConfigurationError(answer.detail if isinstance(answer, Unfit) else "the OCR engine did not get ready")
        self.engine, self.version = answer.engine, answer.version

    async def read(self, data: bytes, timeout_seconds: float) -> EngineResult:
        """Read one image file.

        Raises:
            PayloadRejected: the image can never be read; the process lives on.
            EngineFailed: ``engine_crashed``, ``engine_timeout``, ``out_of_memory``, ``engine_error`` or
                ``engine_unavailable`` (stopped meanwhile); the process is dead, as it is when the caller is cancelled.
        """
        self.images += 1
        serial = self.images
        watch = asyncio.create_task(self._watch_memory())
        try:
            async with asyncio.timeout(timeout_seconds):
                answer = await self._ask(Read(serial, data))
            result = self._judge(answer, serial)
        except PayloadRejected:
            raise
        except TimeoutError:
            self.kill()
            raise EngineFailed("engine_timeout", f"the image was not read within {timeout_seconds:g} s") from None
        except (EOFError, ConnectionError, ProtocolError) as error:
            stopped = self._killed and not self._too_large
            self.kill()
            raise await self._failure(error, stopped=stopped) from error
        except BaseException:
            self.kill()
            raise
        finally:
            watch.cancel()
        self._base_rss = self._base_rss or self.rss
        return result

    def kill(self) -> None:
        """Kill the process and all it started; a second call does nothing."""
        self._killed = True
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def stop(self) -> None:
        """Kill the process and wait until it is gone. It has nothing to save, so it is not asked."""
        self.kill()
        await self.ended()

    async def retire(self) -> None:
        """Stop the process after the image it is reading."""
        async with self._asking:
            await self.stop()

    async def ended(self) -> None:
        """Wait until the process is gone, for whatever reason."""
        if self._life is not None:
            await asyncio.shield(self._life)

    async def _ask(self, request: Request) -> Answer:
        assert self._process is not None  # noqa: S101 - narrows the type; started processes only
        assert self._process.stdin is not None  # noqa: S101
        assert self._process.stdout is not None  # noqa: S101
        async with self._asking:
            self._process.stdin.write(frame(request))
            await self._process.stdin.drain()
            return await receive_answer(self._process.stdout)

    def _judge(self, answer: Answer, serial: int) -> EngineResult:
        if not isinstance(answer, Done | Rejected | Broken) or answer.serial != serial:
            raise ProtocolError("an answer to another question")
        if isinstance(answer, Rejected):
            raise PayloadRejected(answer.reason, answer.detail)
        if isinstance(answer, Broken):
            raise EngineFailed(answer.reason, answer.detail)
        return EngineResult(self.engine, self.version, answer.lines, answer.width, answer.height, answer.seconds)

    async def _failure(self, error: BaseException, *, stopped: bool) -> EngineFailed:
        """Say what ended the process; its own words go to the log only, the detail is shown to the image's owner."""
        await self.ended()
        if stopped:
            return EngineFailed("engine_unavailable", "the OCR engines are stopped")
        log.error("engine process died", end=self._end_of_it(error), said=self._said(), images=self.images)
        if self._too_large:
            return EngineFailed(
                "out_of_memory", f"the engine grew beyond {self._settings.max_memory_mb} MB on this image"
            )
        return EngineFailed("engine_crashed", self._end_of_it(error))

    async def _watch_memory(self) -> None:
        """Kill the process when it grows beyond the limit; the pending read then learns why."""
        while self.alive:
            if self.rss > self._settings.max_memory_mb * _MB:
                self._too_large = True
                self.kill()
                return
            await asyncio.sleep(_MEMORY_LOOK_SECONDS)

    async def _live(self, process: asyncio.subprocess.Process) -> None:
        """Drain what the process says until it ends, and leave nothing of it behind."""
        assert process.stdin is not None  # noqa: S101 - all three are pipes
        assert process.stdout is not None  # noqa: S101
        assert process.stderr is not None  # noqa: S101
        listening = asyncio.create_task(self._listen(process.stderr))
        try:
            await process.wait()
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                # What it started outlives a crash and would keep the pipes open.
                os.killpg(process.pid, signal.SIGKILL)
            process.stdin.close()
            await listening
            async with self._asking:
                # Unread answers would keep the pipe's transport open for ever.
                while await process.stdout.read(65_536):
                    pass

    async def _listen(self, stderr: asyncio.StreamReader) -> None:
        """Keep the last words only; an engine must neither block on a full pipe nor fill our memory."""
        while words := await stderr.read(65_536):
            self._last_words += words
            del self._last_words[:-_LAST_WORDS]

    def _said(self) -> str:
        words = self._last_words.decode(errors="replace").strip()
        return f"; it said: {words}" if words else ""

    def _end_of_it(self, error: BaseException) -> str:
        if isinstance(error, ProtocolError):
            return f"the engine process sent nonsense ({error})"
        status = self._process.returncode if self._process is not None else None
        if status is not None and status < 0:
            return f"the engine process was ended by {signal.Signals(-status).name}"
        return f"the engine process ended with status {status}"


def engine_environment(environment: Mapping[str, str], threads: int) -> dict[str, str]:
    """Return what an engine process may know of the runner's environment, with its threads set.

    The libraries below the engines (OpenMP, OpenBLAS) count the host's cores unless they are told.
    """
    kept = {name: value for name, value in environment.items() if name.startswith(_PASSED_ON)}
    return kept | {"OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)}
