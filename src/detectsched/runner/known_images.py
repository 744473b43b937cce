"""What a runner knows of an image before it is read: that it need not be, or must not be; and what reading tells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from detectsched.attempt import Started
from detectsched.db.connection import Ledger
from detectsched.db.images_seen import note_crash, recall
from detectsched.detection import EngineResult
from detectsched.errors import EngineFailed, PoisonImage
from detectsched.ocr.faults import KILLING
from detectsched.runner.empty_rate import EmptyRate
from detectsched.settings import OcrSettings
from detectsched.telemetry import get_logger

log = get_logger(__name__)

POISON_CRASHES: Final = 2
"""Engines that an image may kill before it is not given to another one: the first time may have been chance."""


class KnownImages:
    """One for all tasks of a runner.

    Args:
        ledger: remembers, for all runners.
        describe: the name and version of what an engine is now; None while it has not started.
        settings: how long readings are reused.
        on_alarm: called when far more images than usual come back without text.
    """

    def __init__(
        self,
        ledger: Ledger,
        describe: Callable[[str], tuple[str, str] | None],
        settings: OcrSettings,
        *,
        on_alarm: Callable[[], None],
    ) -> None:
        self._ledger = ledger
        self._describe = describe
        self._settings = settings
        self._on_alarm = on_alarm
        self.empty = EmptyRate()
        self.read = 0
        """Images read by engines since the start."""
        self.reused = 0
        """Images whose text was known."""
        self.poison = 0
        """Images that were given up on for crashing engines."""

    async def recall(self, started: Started) -> EngineResult | None:
        """Return what this engine's version read lately in an identical image of the same tenant, if anything.

        Raises:
            PoisonImage: it has crashed this version before.
        """
        described = self._describe(started.engine or "")
        if started.blob_sha256 is None or described is None:
            return None
        engine, version = described
        seen = await recall(
            self._ledger,
            started.delivery.task_id,
            started.tenant,
            started.blob_sha256,
            engine=engine,
            version=version,
            reuse_seconds=self._settings.reuse_seconds,
        )
        if seen.crashes >= POISON_CRASHES:
            raise self._poison(seen.crashes)
        if seen.read is None:
            return None
        self.reused += 1
        # No engine has worked: its seconds are another task's.
        return replace(seen.read, seconds=0.0)

    def learn(self, result: EngineResult) -> None:
        """Count what was read, and see whether far more than usual is empty."""
        self.read += 1
        if self.empty.add(not result.lines):
            log.error(
                "far more images than usual come back without text",
                lately=round(self.empty.lately, 2),
                before=round(self.empty.before, 2),
                engine=result.engine,
                version=result.version,
            )
            self._on_alarm()

    async def failed(self, started: Started, error: EngineFailed) -> None:
        """Remember an image that has killed an engine.

        Raises:
            PoisonImage: it was not the first time.
        """
        described = self._describe(started.engine or "")
        if error.reason not in KILLING or started.blob_sha256 is None or described is None:
            return
        engine, version = described
        crashes = await note_crash(
            self._ledger,
            started.delivery.task_id,
            started.tenant,
            started.blob_sha256,
            engine=engine,
            version=version,
            reason=error.reason,
        )
        if crashes >= POISON_CRASHES:
            raise self._poison(crashes) from error

    def _poison(self, crashes: int) -> PoisonImage:
        self.poison += 1
        return PoisonImage(
            f"this image has crashed the engine {crashes} times: it is kept for study, and read again when it is "
            "driven again or the engine is updated"
        )
