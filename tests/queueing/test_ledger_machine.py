"""Any steps over the real scripts and the real SQL, with losses of Redis and with zombies; then the checker judges.

What `test_machine` is for Redis alone, this is for both stores: between the two writes of every actor it may die.
``MACHINE_EXAMPLES`` makes it run for longer, at random.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Final

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule, run_state_machine_as_test

from chaos.check import violations
from chaos.check.evidence import gather_from
from chaos.journal import Accepted, Asked
from detectsched.db.accept import NewTask, accept
from detectsched.db.transitions import cancel
from detectsched.queueing.queue import Placement
from detectsched.settings import Settings
from detectsched.task import DEFAULT_TENANT, TaskState
from tests.chaos.small_run import text_of_object
from tests.queueing.ledger_world import ATTEMPTS, CONSUMERS, LedgerWorld, Stores
from tests.support.actors import new_text
from tests.support.machines import machine_settings, patient

SOMETIMES: Final = frozenset(
    {
        "a zombie was refused",
        "an actor died between the stores",
        "redis was rebuilt",
        "redis was rebuilt around a task that ran",
        "an old snapshot came back",
        "a task ended",
    }
)
picks, crashes = st.integers(0, 7), st.sampled_from([False, False, True])


class LedgerMachine(LedgerWorld):
    """Everybody's steps in any order."""

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
        self.attempt(self.hand_out(consumer, room, crash))

    @rule(consumer=st.sampled_from(CONSUMERS))
    def work(self, consumer: str) -> None:
        """Let everybody do his duty once, so that a run is more than its losses."""
        self.heal()
        self.serve(consumer, 2, crash=False)
        if len(self.hands) > 1:
            self.conclude(0, "succeeded", crash=False)

    @precondition(lambda self: self.hands)
    @rule(number=picks, state=st.sampled_from(["succeeded", "queued", "back", "failed"]), crash=crashes)
    def conclude(self, number: int, state: str, *, crash: bool) -> None:
        """Persist how a try ended, then acknowledge."""
        started = self.hands.pop(number % len(self.hands))
        if self.loop.run(self.persist(started, state)):
            self.met.add("a task ended")
            if self.died(crash=crash):
                # Unlike whoever sleeps, the dead speak no more: what they have not told Redis, others find.
                return
            self.attempt(self.acknowledge(started, state))
        self.stale.append(started)

    @precondition(lambda self: self.stale)
    @rule(number=picks, state=st.sampled_from(["succeeded", "queued"]))
    def speak_as_a_zombie(self, number: int, state: str) -> None:
        """Whoever has lost his task, or has ended it, changes nothing any more."""
        started = self.pick(self.stale, number)
        if any(one.delivery == started.delivery for one in self.hands):
            return
        # Whoever only slept, and was not missed, is no zombie yet.
        is_current = self.loop.run(self.is_running(started))
        assert self.loop.run(self.persist(started, state)) == is_current, "a zombie has written"
        if not is_current:
            self.met.add("a zombie was refused")
        self.attempt(self.acknowledge(started, state))

    @precondition(lambda self: self.hands)
    @rule()
    def fall_asleep(self) -> None:
        """Everything in hand goes to the zombies; they speak when they wake."""
        self.forget_hands()

    # The dispatcher ---------------------------------------------------------------------------------------------------

    @rule(crash=crashes)
    def reap(self, *, crash: bool) -> None:
        """Take every delivery from its owner, who will speak as a zombie."""
        self.forget_hands()
        self.attempt(self.take_over(crash))

    @rule()
    def wait_a_lease(self) -> None:
        """Let a lease pass, and bring back what is due."""
        self.forget_hands()
        self.time.advance(61)
        self.attempt(self.bring_back())

    @rule()
    def heal(self) -> None:
        """Rebuild where that is needed, and reconcile."""
        if self.attempt(self.rebuilder.run_once()) is not None:
            self.met |= {"redis was rebuilt", *(["redis was rebuilt around a task that ran"] if self.hands else [])}
        self.attempt(self.reconciler.run_once())

    # Redis ------------------------------------------------------------------------------------------------------------

    @rule()
    def keep(self) -> None:
        """Keep a copy of all data."""
        self.kept = self.loop.run(self.copy())

    @rule(what=st.sampled_from(["everything", "the last commands", "scripts"]))
    def lose(self, what: str) -> None:
        """FLUSHALL, an old snapshot put back, or SCRIPT FLUSH."""
        if what == "everything":
            self.loop.run(self.redis.flushall())
        elif what == "scripts":
            self.loop.run(self.redis.script_flush())
        elif self.kept:
            self.loop.run(self.put_back())
            self.met.add("an old snapshot came back")

    # The end ----------------------------------------------------------------------------------------------------------

    def teardown(self) -> None:
        """Heal, work everything off, and let the checker judge."""
        for _ in range(60):
            self.heal()
            self.wait_a_lease()
            self.reap(crash=False)
            self.serve(CONSUMERS[0], 3, crash=False)
            while self.hands:
                self.conclude(0, "succeeded", crash=False)
            if self.loop.run(self.is_over()):
                break
        evidence = self.loop.run(gather_from(self.queue, self.redis, self.ledger, self.settings, self.journal))
        wrong = {name: lines for name, lines in violations(evidence).items() if lines}
        assert not wrong, wrong
        assert not evidence.open, "never served"


@patient
def test_both_stores_agree_after_any_sequence_of_steps(settings: Settings) -> None:
    """Nothing is lost, nothing has two results, and an object's tasks ran in their order."""
    met: set[str] = set()
    scheduler = settings.scheduler.model_copy(update={"max_attempts": ATTEMPTS, "lease_seconds": 60.0})
    with Stores.opened(settings.model_copy(update={"scheduler": scheduler})) as stores:
        run_state_machine_as_test(
            partial(LedgerMachine, stores, met),  # type: ignore[arg-type]  # as in test_machine
            settings=machine_settings(100),
        )
    assert met >= SOMETIMES, f"never met: {SOMETIMES - met}"
