"""Fetches deliveries of one lane: never more than there are free slots, and only while the runner is healthy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from detectsched import failpoints
from detectsched.errors import StoreUnavailable
from detectsched.lifecycle import Loop
from detectsched.queueing.queue import Queue
from detectsched.runner.desk import Desk

_BLOCK_SECONDS: Final = 1.0


class LaneReader(Loop):
    """Blocks on the lane's stream while it has room.

    ``on_return`` is called when Redis can be reached again. While ``asks_admission`` says so, the lane is for runners
    with a GPU and this one has none: it fetches only what it is admitted to.
    """

    def __init__(
        self,
        queue: Queue,
        desk: Desk,
        *,
        lane: str,
        consumer: str,
        slots: int,
        may_fetch: Callable[[], bool],
        on_return: Callable[[], None],
        asks_admission: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__(0.0)
        self._queue = queue
        self._desk = desk
        self._lane = lane
        self._consumer = consumer
        self._slots = slots
        self._may_fetch = may_fetch
        self._asks_admission = asks_admission
        self._on_return = on_return
        self._reply_lost = True

    @property
    def name(self) -> str:
        """Reader and its lane."""
        return f"reader:{self._lane}"

    async def run_once(self) -> int:
        """Fetch what there is room for; return how many deliveries were taken."""
        room = self._slots - self._desk.in_hand(self._lane)
        if room > 0 and self._asks_admission() and not await self._queue.admits_cpu(self._lane):
            room = 0
        if room <= 0 or not self._may_fetch():
            await self._desk.wait_for_room(_BLOCK_SECONDS if room <= 0 else 0.2)
            return 0
        try:
            if self._reply_lost:
                await self._take_unseen()
                room = self._slots - self._desk.in_hand(self._lane)
                if room <= 0:
                    return 0
            deliveries = await self._queue.read(self._lane, self._consumer, count=room, block_seconds=_BLOCK_SECONDS)
        except StoreUnavailable:
            self._reply_lost = True
            raise
        if deliveries:
            failpoints.hit("run.after_claim")
        for delivery in deliveries:
            self._desk.take(delivery)
        return len(deliveries)

    def expect_unseen(self) -> None:
        """Look, before the next fetch, for deliveries in our name that we never saw."""
        self._reply_lost = True

    @property
    def takes(self) -> bool:
        """Whether a next task may be taken into the place of one that was completed, without asking anybody."""
        return self._may_fetch() and not self._asks_admission()

    @property
    def lane(self) -> str:
        """The lane it reads."""
        return self._lane

    async def _take_unseen(self) -> None:
        # A reply that was lost on its way may have put deliveries in our name that we never saw. What was in hand when
        # we asked is not unseen, though it may have ended, and left Redis, before the answer came.
        seen = {job.delivery.task_id for job in self._desk.jobs()}
        for delivery in await self._queue.read_own(self._lane, self._consumer):
            if delivery.task_id not in seen:
                self._desk.take(delivery)
        self._reply_lost = False
        self._on_return()

    async def pause(self) -> None:
        """Do not wait: reading blocks by itself."""
