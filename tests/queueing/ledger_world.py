"""Both stores as the ledger machine's actors share them, and what each of them does in one step or dies in."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from hypothesis.stateful import RuleBasedStateMachine

from chaos.history import INSTALL
from chaos.journal import Record
from detectsched.attempt import Ending, Started
from detectsched.db.accept import NewTask
from detectsched.db.connection import Ledger
from detectsched.db.results import end
from detectsched.db.starts import start
from detectsched.db.transitions import recover
from detectsched.detection import Detection
from detectsched.dispatcher.rebuilder import Rebuilder
from detectsched.dispatcher.reconciler import Reconciler
from detectsched.dispatcher.recovery import recover_deliveries
from detectsched.errors import StoreUnavailable
from detectsched.queueing.connection import RedisClients
from detectsched.queueing.queue import Completion, GivenBack, Queue
from detectsched.settings import Settings
from detectsched.task import TaskError, TaskState
from tests.support.actors import DEFAULT_TURNS, FakeTime

Result = TypeVar("Result")

CONSUMERS: Final = ("host:1:a", "host:2:b")
LANES: Final = ("ocr", "text")
ATTEMPTS: Final = 4

_COPY: Final = """
local all = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  if redis.call('PTTL', key) < 0 then
    all[#all + 1] = key
    all[#all + 1] = redis.call('DUMP', key)
  end
end
return all
"""


class Stores:
    """One event loop and its connections, for all examples of a run: a fresh connection costs more than the steps."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.loop = asyncio.Runner()
        self.clients = RedisClients(settings.redis, name="machine")
        self.ledger = Ledger(settings.postgres)

    @classmethod
    @contextmanager
    def opened(cls, settings: Settings) -> Iterator[Stores]:
        """Open them, with the history that the checker reads."""
        stores = cls(settings)
        run = stores.loop.run
        try:
            run(stores._install())
            yield stores
        finally:
            run(stores.clients.commands.config_set("hz", 10))
            run(stores.clients.close())
            run(stores.ledger.close())
            stores.loop.close()

    async def _install(self) -> None:
        # The server looks at blocked clients this often: a read of an empty stream is over after 2 ms, not after 100.
        await self.clients.commands.config_set("hz", 500)
        async with self.ledger.connection() as connection:
            await connection.execute(INSTALL)

    async def emptied(self) -> None:
        """Forget everything; DELETE, since to truncate a dozen tables takes longer than to empty small ones."""
        async with self.ledger.connection() as connection:
            await connection.execute("DELETE FROM task")
            await connection.execute("DELETE FROM chaos_history")
        await self.clients.commands.flushall()


class LedgerWorld(RuleBasedStateMachine):
    """An API, a dispatcher, two runners that may sleep, and a Redis that forgets: their memory, and single steps."""

    def __init__(self, stores: Stores, met: set[str]) -> None:
        super().__init__()
        self.settings, self.met, self.loop = stores.settings, met, stores.loop
        self.redis, self.ledger = stores.clients.commands, stores.ledger
        self.time = FakeTime()
        self.queue = Queue(stores.clients, stores.settings, now_ms=self.time)
        self.rebuilder = Rebuilder(self.queue, self.ledger, stores.settings)
        scheduler = stores.settings.scheduler
        self.reconciler = Reconciler(self.queue, self.ledger, scheduler, stores.settings.lanes, patience_seconds=0.0)
        self.journal: list[Record] = []
        self.accepted: list[NewTask] = []
        self.hands: list[Started] = []
        self.stale: list[Started] = []
        self.kept: dict[bytes, bytes] = {}
        self.loop.run(stores.emptied())
        self.loop.run(self.rebuilder.run_once())

    def attempt(self, step: Awaitable[Result]) -> Result | None:
        """Run a step of somebody; None where a store is away: he comes again."""

        async def run() -> Result | None:
            try:
                return await step
            except StoreUnavailable:
                return None

        return self.loop.run(run())

    def pick(self, some: list[Any], number: int) -> Any:
        """Choose one."""
        return some[number % len(some)]

    def died(self, *, crash: bool) -> bool:
        """Note that somebody died between the stores, if he does."""
        if crash:
            self.met.add("an actor died between the stores")
        return crash

    def forget_hands(self) -> None:
        """Everything in hand goes to those who may speak as zombies."""
        self.stale += self.hands
        self.hands.clear()

    # The runners ------------------------------------------------------------------------------------------------------

    async def hand_out(self, consumer: str, room: int, crash: bool) -> None:
        """Dispatch to a runner that has room, which fetches and starts."""
        out = (await self.queue.level(LANES))["outstanding:text"]
        await self.queue.scripts.dispatch("text", capacity=out + room, live=CONSUMERS, turns=DEFAULT_TURNS)
        deliveries = await self.queue.read("text", consumer, count=room, block_seconds=0.001)
        if not deliveries or self.died(crash=crash):
            return
        answers = await start(self.ledger, deliveries, runner=consumer)
        self.hands += [answer for answer in answers if isinstance(answer, Started)]
        for delivery, answer in zip(deliveries, answers, strict=True):
            if answer == "ended":
                await self.queue.scripts.complete([Completion(delivery.task_id, delivery.number)])

    async def is_running(self, started: Started) -> bool:
        """Whether the ledger has a task as running under this very fence."""
        async with self.ledger.connection() as connection:
            row = await connection.fetchrow("SELECT state, fence FROM task WHERE id = $1", started.delivery.task_id)
        return (row["state"], row["fence"]) == ("running", started.fence)

    async def persist(self, started: Started, state: str) -> bool:
        """Write the end of a try; whether it was written."""
        target = TaskState.QUEUED if state == "back" else TaskState(state)
        good = target is TaskState.SUCCEEDED
        [written] = await end(
            self.ledger,
            [
                Ending(
                    started.delivery.task_id,
                    started.tenant,
                    started.fence,
                    target,
                    spends_attempt=state == "queued",
                    error=None if good else TaskError("engine_failed", "so the test wants it"),
                    detection=Detection((), ()) if good else None,
                )
            ],
        )
        return written

    async def acknowledge(self, started: Started, state: str) -> None:
        """Tell Redis how a try ended."""
        task_id, number = started.delivery.task_id, started.delivery.number
        if state in {"queued", "back"}:
            await self.queue.scripts.release([GivenBack(task_id, number)])
        else:
            await self.queue.scripts.complete([Completion(task_id, number)])

    # The dispatcher ---------------------------------------------------------------------------------------------------

    async def take_over(self, crash: bool) -> None:
        """Take every delivery from its owner."""
        lost = await self.queue.scripts.reclaim("text", "reaper:1", lease_seconds=0, limit=100)
        if lost and self.died(crash=crash):
            await recover(self.ledger, [(one.task_id, one.number) for one in lost], max_attempts=ATTEMPTS)
            return
        await recover_deliveries(self.queue, self.ledger, lost, self.settings.scheduler)

    async def bring_back(self) -> None:
        """Bring back what is due."""
        done = await self.queue.scripts.promote(lease_seconds=60, limit=100, lanes=LANES)
        await recover_deliveries(self.queue, self.ledger, done.held, self.settings.scheduler)

    # Redis ------------------------------------------------------------------------------------------------------------

    async def copy(self) -> dict[bytes, bytes]:
        """Return all data that has no time to live."""
        dumped = await self.redis.eval(_COPY, 0)
        return dict(zip(dumped[::2], dumped[1::2], strict=True))

    async def put_back(self) -> None:
        """Come back as another server with the data of some time ago, and a marker that was valid then."""
        await self.redis.flushall()
        for key, data in self.kept.items():
            await self.redis.restore(key, 0, data)
        await self.redis.set(self.queue.keys.generation, "0" * 32 + "@" + "f" * 40)
        self.queue.generation = None

    async def is_over(self) -> bool:
        """Whether nothing is left to do in either store."""
        async with self.ledger.connection() as connection:
            left = await connection.fetchval("SELECT count(*) FROM task WHERE state IN ('queued', 'running')")
        level = await self.queue.level(LANES)
        held = await self.redis.zcard(self.queue.keys.named("deferred"))
        return not left and not level["total_pending"] and not level["outstanding:text"] and not held
