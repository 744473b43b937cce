"""Any steps over the real scripts and the real SQL, with losses of Redis and with zombies; then the checker judges.

What `test_machine` is for Redis alone, this is for both stores: between the two writes of every actor it may die.
``MACHINE_EXAMPLES`` makes it run for longer, at random.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable
from functools import partial
from typing import Any, Final, TypeVar

import hypothesis
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from chaos.check import violations
from chaos.check.evidence import gather
from chaos.history import INSTALL
from chaos.journal import Accepted, Asked, Record
from detectsched.attempt import Ending, Started
from detectsched.db.accept import NewTask, accept
from detectsched.db.connection import Ledger
from detectsched.db.results import end
from detectsched.db.starts import start
from detectsched.db.transitions import cancel, recover
from detectsched.detection import Detection
from detectsched.dispatcher.rebuilder import Rebuilder
from detectsched.dispatcher.reconciler import Reconciler
from detectsched.dispatcher.recovery import recover_deliveries
from detectsched.errors import StoreUnavailable
from detectsched.queueing.connection import RedisClients
from detectsched.queueing.queue import Completion, GivenBack, Placement, Queue
from detectsched.settings import Settings
from detectsched.task import DEFAULT_TENANT, TaskError, TaskState
from tests.chaos.small_run import text_of_object
from tests.support.actors import DEFAULT_TURNS, FakeTime, new_text

Result = TypeVar("Result")

CONSUMERS: Final = ("host:1:a", "host:2:b")
LANES: Final = ("ocr", "text")
ATTEMPTS: Final = 4
SOMETIMES: Final = frozenset(
    {"a zombie was refused", "an actor died between the stores", "redis was rebuilt", "an old snapshot came back"}
)
picks, crashes = st.integers(0, 7), st.sampled_from([False, False, True])


class LedgerMachine(RuleBasedStateMachine):
    """An API, a dispatcher, two runners that may sleep, and a Redis that forgets."""

    def __init__(self, settings: Settings, met: set[str]) -> None:
        super().__init__()
        self.settings, self.met = settings, met
        self.time = FakeTime()
        self.loop = asyncio.Runner()
        self.clients = RedisClients(settings.redis, name="machine")
        self.redis = self.clients.commands
        self.ledger = Ledger(settings.postgres)
        self.queue = Queue(self.clients, settings, now_ms=self.time)
        self.rebuilder = Rebuilder(self.queue, self.ledger, settings)
        scheduler = settings.scheduler
        self.reconciler = Reconciler(self.queue, self.ledger, scheduler, settings.lanes, patience_seconds=0.0)
        self.journal: list[Record] = []
        self.accepted: list[NewTask] = []
        self.hands: list[Started] = []
        self.stale: list[Started] = []
        self.kept: dict[bytes, bytes] = {}
        self.loop.run(self._begin())

    async def _begin(self) -> None:
        async with self.ledger.connection() as connection:
            await connection.execute(INSTALL)
            await connection.execute("TRUNCATE task CASCADE")
            await connection.execute("TRUNCATE chaos_history")
        await self.redis.flushall()
        await self.rebuilder.run_once()

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

    # The API ----------------------------------------------------------------------------------------------------------

    @initialize()
    def begin(self) -> None:
        """Begin with something to do."""
        for number in range(3):
            self.submit(number, number % 2 == 0, crash=False)

    @rule(number=st.integers(0, 2), of_object=st.booleans(), crash=crashes)
    def submit(self, number: int, of_object: bool, *, crash: bool) -> None:
        """Accept a task and queue it."""
        key = f"key {len(self.accepted)}"
        task = text_of_object(f"door {number}", key) if of_object else new_text(number, key=key)
        self.accepted.append(task)
        self.ask(task, crash=crash)

    @precondition(lambda self: self.accepted)
    @rule(number=picks)
    def ask_again(self, number: int) -> None:
        """Repeat a request."""
        self.ask(self.pick(self.accepted, number), crash=False)

    def ask(self, task: NewTask, *, crash: bool) -> None:
        """Send a request; who gets no answer does not know."""
        key = task.idempotency_key or ""
        self.journal.append(Asked(time.time(), key, task.tenant, task.object))
        [row] = self.loop.run(accept(self.ledger, [task]))
        if self.died(crash=crash):
            return
        if (
            row.state is TaskState.QUEUED
            and self.attempt(self.queue.scripts.enqueue([Placement(row.task, row.entitlement)])) is None
        ):
            return
        self.journal.append(Accepted(time.time(), key, task.tenant, str(row.task.id), task.object))

    @precondition(lambda self: self.accepted)
    @rule(number=picks, crash=crashes)
    def cancel(self, number: int, *, crash: bool) -> None:
        """Cancel a task."""
        task_id = self.pick(self.accepted, number).id
        state = self.loop.run(cancel(self.ledger, DEFAULT_TENANT, task_id))
        if state is not None and not self.died(crash=crash):
            self.attempt(self.queue.scripts.withdraw([task_id]))

    # The runners ------------------------------------------------------------------------------------------------------

    @rule(consumer=st.sampled_from(CONSUMERS), room=st.integers(1, 3), crash=crashes)
    def serve(self, consumer: str, room: int, *, crash: bool) -> None:
        """Hand out, fetch and start."""
        self.attempt(self._serve(consumer, room, crash))

    async def _serve(self, consumer: str, room: int, crash: bool) -> None:
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

    @precondition(lambda self: self.hands)
    @rule(number=picks, state=st.sampled_from(["succeeded", "queued", "back", "failed"]), crash=crashes)
    def conclude(self, number: int, state: str, *, crash: bool) -> None:
        """Persist how a try ended, then acknowledge."""
        started = self.hands.pop(number % len(self.hands))
        self.stale.append(started)
        if self.loop.run(self._persist(started, state)) and not self.died(crash=crash):
            self.attempt(self._acknowledge(started, state))

    @precondition(lambda self: self.stale)
    @rule(number=picks, state=st.sampled_from(["succeeded", "queued"]))
    def speak_as_a_zombie(self, number: int, state: str) -> None:
        """Whoever has lost his task, or has ended it, changes nothing any more."""
        started = self.pick(self.stale, number)
        if any(one.delivery == started.delivery for one in self.hands):
            return
        # Whoever only slept, and was not missed, is no zombie yet.
        is_current = self.loop.run(self._is_running(started))
        assert self.loop.run(self._persist(started, state)) == is_current, "a zombie has written"
        if not is_current:
            self.met.add("a zombie was refused")
        self.attempt(self._acknowledge(started, state))

    async def _is_running(self, started: Started) -> bool:
        async with self.ledger.connection() as connection:
            row = await connection.fetchrow("SELECT state, fence FROM task WHERE id = $1", started.delivery.task_id)
        return (row["state"], row["fence"]) == ("running", started.fence)

    async def _persist(self, started: Started, state: str) -> bool:
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

    async def _acknowledge(self, started: Started, state: str) -> None:
        task_id, number = started.delivery.task_id, started.delivery.number
        if state in {"queued", "back"}:
            await self.queue.scripts.release([GivenBack(task_id, number)])
        else:
            await self.queue.scripts.complete([Completion(task_id, number)])

    @precondition(lambda self: self.hands)
    @rule()
    def fall_asleep(self) -> None:
        """Everything in hand goes to the zombies; they speak when they wake."""
        self.stale += self.hands
        self.hands.clear()

    # The dispatcher ---------------------------------------------------------------------------------------------------

    @rule(crash=crashes)
    def reap(self, *, crash: bool) -> None:
        """Take every delivery from its owner, who will speak as a zombie."""
        self.stale += self.hands
        self.hands.clear()
        self.attempt(self._reap(crash))

    async def _reap(self, crash: bool) -> None:
        lost = await self.queue.scripts.reclaim("text", "reaper:1", lease_seconds=0, limit=100)
        if lost and self.died(crash=crash):
            await recover(self.ledger, [(one.task_id, one.number) for one in lost], max_attempts=ATTEMPTS)
            return
        await recover_deliveries(self.queue, self.ledger, lost, self.settings.scheduler)

    @rule()
    def wait_a_lease(self) -> None:
        """Let a lease pass, and bring back what is due."""
        self.stale += self.hands
        self.hands.clear()
        self.time.advance(61)
        self.attempt(self._promote())

    async def _promote(self) -> None:
        done = await self.queue.scripts.promote(lease_seconds=60, limit=100, lanes=LANES)
        await recover_deliveries(self.queue, self.ledger, done.held, self.settings.scheduler)

    @rule()
    def heal(self) -> None:
        """Rebuild where that is needed, and reconcile."""
        if self.attempt(self.rebuilder.run_once()) is not None:
            self.met.add("redis was rebuilt")
        self.attempt(self.reconciler.run_once())

    # Redis ------------------------------------------------------------------------------------------------------------

    @rule()
    def keep(self) -> None:
        """Keep a copy of all data."""
        self.kept = self.loop.run(self._dump())

    async def _dump(self) -> dict[bytes, bytes]:
        keys = await self.redis.keys("*")
        return {key: await self.redis.dump(key) for key in keys if await self.redis.pttl(key) < 0}

    @precondition(lambda self: self.kept)
    @rule()
    def lose_the_last_commands(self) -> None:
        """Come back as another server with the data of some time ago, and a marker that was valid then."""
        self.loop.run(self._restore())
        self.met.add("an old snapshot came back")

    async def _restore(self) -> None:
        await self.redis.flushall()
        for key, data in self.kept.items():
            await self.redis.restore(key, 0, data)
        await self.redis.set(self.queue.keys.generation, "0" * 32 + "@" + "f" * 40)
        self.queue.generation = None

    @rule()
    def lose_everything(self) -> None:
        """FLUSHALL."""
        self.loop.run(self.redis.flushall())

    @rule()
    def forget_scripts(self) -> None:
        """SCRIPT FLUSH."""
        self.loop.run(self.redis.script_flush())

    # The end ----------------------------------------------------------------------------------------------------------

    def teardown(self) -> None:
        """Heal, work everything off, and let the checker judge."""
        try:
            for _ in range(60):
                self.heal()
                self.wait_a_lease()
                self.reap(crash=False)
                self.serve(CONSUMERS[0], 3, crash=False)
                while self.hands:
                    self.conclude(0, "succeeded", crash=False)
                if self.loop.run(self._is_over()):
                    break
            evidence = self.loop.run(gather(self.settings, self.journal))
            evidence.now_ms = self.time.ms
            wrong = {name: lines for name, lines in violations(evidence).items() if lines}
            assert not wrong, wrong
            assert not evidence.open, "never served"
        finally:
            self.loop.run(self.clients.close())
            self.loop.run(self.ledger.close())
            self.loop.close()

    async def _is_over(self) -> bool:
        async with self.ledger.connection() as connection:
            left = await connection.fetchval("SELECT count(*) FROM task WHERE state IN ('queued', 'running')")
        level = await self.queue.level(LANES)
        held = await self.redis.zcard(self.queue.keys.named("deferred"))
        return not left and not level["total_pending"] and not level["outstanding:text"] and not held


@pytest.mark.timeout(600)
def test_both_stores_agree_after_any_sequence_of_steps(settings: Settings) -> None:
    """Nothing is lost, nothing has two results, and an object's tasks ran in their order."""
    examples = os.environ.get("MACHINE_EXAMPLES")
    met: set[str] = set()
    scheduler = settings.scheduler.model_copy(update={"max_attempts": ATTEMPTS, "lease_seconds": 60.0})
    run_state_machine_as_test(
        partial(LedgerMachine, settings.model_copy(update={"scheduler": scheduler}), met),  # type: ignore[arg-type]  # as in test_machine
        settings=hypothesis.settings(
            max_examples=int(examples or 30),
            stateful_step_count=50,
            derandomize=examples is None,
            database=None,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(hypothesis.HealthCheck),
        ),
    )
    assert met >= SOMETIMES, f"never met: {SOMETIMES - met}"
