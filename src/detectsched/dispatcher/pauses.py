"""Sees to it that Redis has paused what the ledger says is paused, and nothing else."""

from __future__ import annotations

from detectsched.db.connection import Ledger
from detectsched.db.control import pauses
from detectsched.lifecycle import Loop
from detectsched.queueing.queue import Queue, concerned
from detectsched.settings import Settings
from detectsched.telemetry import get_logger

log = get_logger(__name__)


class PauseKeeper(Loop):
    """Mends what a lost answer left behind: an API that died between ledger and Redis, a pause made during a rebuild.

    A difference is mended when it is seen twice: the first time it may be a decision on its way.
    """

    def __init__(self, queue: Queue, ledger: Ledger, settings: Settings) -> None:
        super().__init__(settings.scheduler.sweep_seconds)
        self._queue = queue
        self._ledger = ledger
        self._lanes = settings.lanes
        self._seen: set[tuple[str, bool]] = set()

    async def run_once(self) -> int:
        """Compare once; return how many differences were mended."""
        wanted = {row.what for row in await pauses(self._ledger)}
        found = set(await self._queue.paused())
        differences = {(what, True) for what in wanted - found} | {(what, False) for what in found - wanted}
        again = differences & self._seen
        self._seen = differences - again
        for what, paused in sorted(again):
            lanes, queues = concerned(what, self._lanes)
            await self._queue.scripts.pause(what, paused=paused, lanes=lanes, queues=queues)
            log.warning("mended a pause", what=what, paused=paused)
        return len(again)
