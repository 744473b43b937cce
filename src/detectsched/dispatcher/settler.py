"""Writes to PostgreSQL what scripts have decided for good, and only then empties the settlement list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from detectsched import failpoints
from detectsched.db.connection import Ledger
from detectsched.db.dead_letters import dead_letter_documents
from detectsched.db.transitions import expire, give_up
from detectsched.lifecycle import Loop
from detectsched.queueing.queue import Queue
from detectsched.settings import SchedulerSettings
from detectsched.telemetry import get_logger

log = get_logger(__name__)

_BATCH: Final = 500


class Settler(Loop):
    """Settles expired tasks and those given up on; several settlers may do the same ones, which changes nothing."""

    def __init__(self, queue: Queue, ledger: Ledger, settings: SchedulerSettings) -> None:
        super().__init__(settings.safety_tick_seconds)
        self._queue = queue
        self._ledger = ledger
        self._dead_letters_kept = settings.dead_letters_kept

    async def run_once(self) -> int:
        """Settle everything that is on the list now; return how many elements."""
        settled = 0
        while elements := await self._queue.settlements(_BATCH):
            await expire(self._ledger, _tasks("expired", elements))
            await self._bury(_tasks("dead", elements))
            failpoints.hit("settle.after_commit")
            settled += await self._queue.scripts.settle(elements)
        return settled

    async def _bury(self, task_ids: Sequence[UUID]) -> None:
        given_up = await give_up(
            self._ledger, task_ids, reason="no_runner", detail="its lane had no runner for too long"
        )
        letters = await dead_letter_documents(self._ledger, given_up)
        await self._queue.mirror_dead_letters(letters, keep=self._dead_letters_kept)


def _tasks(decision: str, elements: Sequence[bytes]) -> list[UUID]:
    pairs = (element.decode(errors="replace").partition("|") for element in elements)
    return [UUID(task_id) for word, _, task_id in pairs if word == decision and _is_id(task_id)]


def _is_id(text: str) -> bool:
    """Whether a text is a task's id; nothing of ours writes another, and the list is emptied of it like of any."""
    try:
        UUID(text)
    except ValueError:
        log.warning("malformed settlement ignored", task=text)
        return False
    return True
