"""Any sequence of steps by any number of actors: after each, everything stands where it belongs.

A state machine drives the real scripts with a clock of its own and looks at the raw keys after each step. Time to live
that the server itself keeps is played by removing whatever has one. ``MACHINE_EXAMPLES`` makes it run for longer, at
random.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final
from uuid import UUID

import hypothesis
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from pydantic import SecretStr

from detectsched.queueing.connection import RedisClients
from detectsched.queueing.queue import Completed, Enqueued, GivenBack, Placement, Released, Renewed, Turns, Withdrawn
from detectsched.settings import RedisSettings, Settings
from tests.support.actors import Bench, device_task, object_task
from tests.support.snapshot import OUT, Snapshot

LANES: Final = ("ocr", "text")
CONSUMERS: Final = ("host:1:a", "host:2:b")
REAPER: Final = "reaper:host:9"
LEASE: Final = 60.0
QUANTUM: Final = 2
COST: Final = 2.0
UNFAIR: Final = 2 * (QUANTUM + COST)
"""A turn of each of two queues (a quantum and one task) may lie between what they have received."""

lanes, consumers = st.sampled_from(LANES), st.sampled_from(CONSUMERS)
tenants, numbers = st.sampled_from("ab"), st.integers(1, 2)
picks = st.integers(0, 7)


class Fairness:
    """What each queue (or tenant) of a lane has received, compared between any two while both are backlogged."""

    def __init__(self) -> None:
        self._received: Counter[tuple[str, str]] = Counter()
        self._since: dict[tuple[str, str, str], float] = {}
        self._refunded: Counter[tuple[str, str]] = Counter()

    def serve(self, lane: str, name: str, cost: float) -> None:
        """Note what was sent."""
        self._received[lane, name] += cost  # type: ignore[assignment]  # a Counter of floats

    def refund(self, lane: str, name: str, cost: float) -> None:
        """Note what was given back unused: it is made up for later."""
        self._refunded[lane, name] += cost  # type: ignore[assignment]

    def forget(self) -> None:
        """Begin anew: the virtual clocks did."""
        self._since.clear()

    def unfair(self, backlogged: set[tuple[str, str]], group_of: Callable[[str], str]) -> list[str]:
        """Return the pairs whose service differs by more than a turn of each."""
        pairs = {
            (lane, a, b)
            for lane, a in backlogged
            for other, b in backlogged
            if lane == other and a < b and group_of(a) == group_of(b)
        }
        for gone in self._since.keys() - pairs:
            del self._since[gone]
        wrong = []
        for lane, a, b in pairs:
            ahead = self._received[lane, a] - self._received[lane, b]
            since = self._since.setdefault((lane, a, b), ahead)
            if abs(ahead - since) > UNFAIR + self._refunded[lane, a] + self._refunded[lane, b]:
                wrong.append(f"{lane}: {a} has received {ahead - since:+} more than {b} while both waited")
        return wrong


class QueueMachine(RuleBasedStateMachine):
    """Devices, objects, dispatchers, runners, a reaper, a settler, a rebuilder and a clock."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.loop = asyncio.Runner()
        self.now: Snapshot | None = None
        self.bench: Bench = self.do(on_empty_redis(settings))
        self.scripts = self.bench.queue.scripts
        self.open: dict[UUID, Placement] = {}
        self.late: list[Placement] = []
        self.hands: dict[UUID, tuple[str, int]] = {}
        self.started: dict[UUID, int] = {}
        self.stale: list[tuple[UUID, int]] = []
        self.cancelled: set[UUID] = set()
        self.queues, self.tenants = Fairness(), Fairness()
        self.told: set[str] = set()
        self.seen = self.look()

    def do(self, step: Any) -> Any:
        """Run one step of somebody."""
        self.now = None
        return self.loop.run(step)

    def look(self) -> Snapshot:
        """Read everything, if anything was done since the last look."""
        if self.now is None:
            self.now = self.loop.run(Snapshot.read(self.bench.queue, self.bench.clients.commands))
        return self.now

    # The API ----------------------------------------------------------------------------------------------------------

    def enter(self, placement: Placement) -> None:
        """Queue an accepted task."""
        assert self.do(self.scripts.enqueue([placement])) == [Enqueued.QUEUED]
        self.open[placement.task.id] = placement
        if placement.task.not_before_ms > self.bench.time.ms:
            self.told.add("wake:@deferred")

    @rule(
        tenant=tenants,
        number=numbers,
        lane=lanes,
        cost=st.sampled_from([1.0, COST]),
        ttl=st.sampled_from([3600, 3600, 15]),
        delay=st.sampled_from([0, 0, 0, 20]),
        late=st.sampled_from([False, False, False, True]),
    )
    def accept_of_device(
        self, tenant: str, number: int, lane: str, cost: float, ttl: float, delay: int, *, late: bool
    ) -> None:
        """Accept a task of a device; the second device of a tenant may have two in flight."""
        task = device_task(number, self.bench.time, lane=lane, tenant=tenant, cost=cost, ttl=ttl)
        if delay:
            task = replace(task, not_before_ms=self.bench.time.ms + delay * 1000)
        placement = Placement(task, limit=2 if number == 2 else 0)
        self.late.append(placement) if late else self.enter(placement)

    @rule(tenant=tenants, number=numbers, lane=lanes, ttl=st.sampled_from([3600, 15]), late=st.booleans())
    def accept_of_object(self, tenant: str, number: int, lane: str, ttl: int, *, late: bool) -> None:
        """Accept a task of an object."""
        task = object_task(f"door {number}", self.bench.time, lane=lane, tenant=tenant)
        placement = Placement(replace(task, expires_ms=self.bench.time.ms + ttl * 1000))
        self.late.append(placement) if late else self.enter(placement)

    @precondition(lambda self: self.late)
    @rule(pick=picks)
    def queue_late(self, pick: int) -> None:
        """Queue a task after others that were accepted later."""
        self.enter(self.late.pop(pick % len(self.late)))

    @precondition(lambda self: self.open)
    @rule(pick=picks)
    def queue_again(self, pick: int) -> None:
        """Repeat an enqueue whose reply was lost."""
        [placement] = self.picked(self.open, pick)
        assert self.do(self.scripts.enqueue([self.open[placement]])) == [Enqueued.DUPLICATE]

    @precondition(lambda self: self.open)
    @rule(pick=picks)
    def withdraw(self, pick: int) -> None:
        """Cancel a task, wherever it is."""
        [task_id] = self.picked(self.open, pick)
        state = self.seen.state(task_id)
        [answer] = self.do(self.scripts.withdraw([task_id]))
        if state in OUT:
            assert answer is Withdrawn.RUNNING
            self.cancelled.add(task_id)
        elif state == "settling":
            assert answer is Withdrawn.GONE
        else:
            assert answer is Withdrawn.WITHDRAWN
            del self.open[task_id]

    # The dispatcher ---------------------------------------------------------------------------------------------------

    @rule(lane=lanes, room=st.integers(1, 4), quantum=st.integers(1, QUANTUM), order=st.sampled_from(["fifo", "lifo"]))
    def dispatch(self, lane: str, room: int, quantum: int, order: str) -> None:
        """Hand out what there is room for; what was sent of an object was its first."""
        before = self.seen
        if f"wake:{lane}" in before.lists:
            assert self.do(self.bench.queue.wait_for_work(lane, timeout_seconds=1.0))
        live = [*CONSUMERS, REAPER]
        outstanding = len(before.streams.get(f"stream:{lane}", {}))
        done = self.do(
            self.scripts.dispatch(
                lane,
                capacity=outstanding + room,
                live=live,
                turns=Turns(batch=quantum, min_batch=1, starvation_seconds=30.0, order=order),
            )
        )
        after = self.look()
        sent = [i for i in self.open if after.state(i) == "streamed" and before.state(i) == "queued"]
        assert len(sent) == done.sent <= room
        served = Counter[str]()
        for task_id in sent:
            task = self.open[task_id].task
            served[str(task.queue)] += task.cost  # type: ignore[assignment]
            self.queues.serve(lane, str(task.queue), task.cost)
            self.tenants.serve(lane, task.queue.tenant, task.cost)
            assert task.expires_ms > self.bench.time.ms, "sent after its time to live"
            if str(task.queue).startswith("object:"):
                rest = [self.open[other].task.sequence for other in after.waiting(str(task.queue))]
                assert all(task.sequence < other for other in rest), "sent before an earlier one of its object"
        for name in served:
            self.check_key(after.scheduled(), lane, name, tenant_of)
            self.check_key(after.scheduled_tenants(), lane, tenant_of(name), lambda _: "")
        if not done.more and done.sent < room:
            assert not [queue for at, queue in after.scheduled() if at == lane], "work and room are left"

    def check_key(
        self, keys: dict[tuple[str, str], float], lane: str, name: str, group_of: Callable[[str], str]
    ) -> None:
        """Who was served is at most a turn ahead of whoever waits."""
        if (lane, name) in keys:
            others = [key for (at, other), key in keys.items() if at == lane and group_of(other) == group_of(name)]
            assert keys[lane, name] - min(others) <= QUANTUM + COST, f"{name} was served too early: {keys}"

    @rule()
    def promote(self) -> None:
        """Bring back what is due."""
        done = self.do(self.scripts.promote(lease_seconds=LEASE, limit=100))
        for lost in done.held:
            assert self.hands[lost.task_id][1] == lost.number
        assert (done.next_due_seconds is None) == ("deferred" not in self.look().zsets)

    @rule(lane=lanes)
    def reclaim(self, lane: str) -> None:
        """Take every delivery from its owner."""
        for lost in self.do(self.scripts.reclaim(lane, REAPER, lease_seconds=0.0, limit=100)):
            assert self.hands[lost.task_id][1] == lost.number
            self.hands[lost.task_id] = (REAPER, lost.number)

    @rule()
    def settle(self) -> None:
        """Empty the settlement list."""
        elements = self.do(self.bench.queue.settlements(100))
        for element in elements:
            task_id = UUID(element.decode().removeprefix("expired|"))
            assert self.open.pop(task_id).task.expires_ms <= self.bench.time.ms
        assert self.do(self.scripts.settle(elements)) == len(elements)

    @rule()
    def rebuild(self) -> None:
        """Lose everything; make it anew from what is open, as the ledger has it."""
        queue = self.bench.queue
        self.do(self.bench.clients.commands.flushall())
        token = self.do(self.bench.queue.rebuild.is_needed(LANES, check_policy=True)) and self.do(queue.rebuild.begin())
        self.do(queue.rebuild.wipe(token, LANES))
        placements = []
        for task_id, placement in sorted(self.open.items(), key=lambda each: each[1].task.sequence):
            owner, number = self.hands.get(task_id, ("", self.started.get(task_id, 0)))
            due = self.bench.time.ms + round(LEASE * 1000) if owner else 0
            task = replace(placement.task, not_before_ms=due, delivery=number)
            placements.append(replace(placement, task=task, held_by=owner))
        self.do(queue.rebuilding(token).enqueue(placements))
        self.do(queue.rebuild.open(token))
        self.cancelled.clear()
        self.queues.forget()
        self.tenants.forget()

    # The runners ------------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.unread())
    @rule(lane=lanes, consumer=consumers, count=st.integers(1, 4))
    def read(self, lane: str, consumer: str, count: int) -> None:
        """Fetch deliveries."""
        for delivery in self.do(self.bench.queue.read(lane, consumer, count=count, block_seconds=0.001)):
            assert delivery.task_id in self.open
            assert delivery.task_id not in self.hands
            assert delivery.number > self.started.get(delivery.task_id, 0)
            self.hands[delivery.task_id] = (consumer, delivery.number)
            self.started[delivery.task_id] = delivery.number

    def unread(self) -> bool:
        """Whether something lies in a stream that nobody has fetched: an empty read would take a while."""
        return any(self.seen.state(task_id) == "streamed" and task_id not in self.hands for task_id in self.open)

    def drop(self, task_id: UUID) -> tuple[UUID, int]:
        """Forget a delivery in hand; its owner may still speak of it."""
        delivery = task_id, self.hands.pop(task_id)[1]
        self.stale.append(delivery)
        self.cancelled.discard(task_id)
        return delivery

    @precondition(lambda self: self.hands)
    @rule(pick=picks, count=st.integers(1, 3))
    def complete(self, pick: int, count: int) -> None:
        """End tasks in hand."""
        done = [self.drop(task_id) for task_id in self.picked(self.hands, pick, count)]
        assert self.do(self.scripts.complete(done)) == [Completed.DONE] * len(done)
        self.told |= {f"wake:{self.open.pop(task_id).task.lane}" for task_id, _ in done}

    @precondition(lambda self: self.hands)
    @rule(pick=picks, count=st.integers(1, 3), delay=st.sampled_from([0.0, 0.0, 20.0]), refund=st.booleans())
    def release(self, pick: int, count: int, delay: float, *, refund: bool) -> None:
        """Give tasks in hand back."""
        back = [self.drop(task_id) for task_id in self.picked(self.hands, pick, count)]
        answers = self.do(self.scripts.release([GivenBack(i, number, delay, refund=refund) for i, number in back]))
        assert answers == [Released.RELEASED] * len(back)
        for task_id, _ in back:
            task = self.open[task_id].task
            self.told |= {f"wake:{task.lane}", *(["wake:@deferred"] if delay else [])}
            if refund:
                self.queues.refund(task.lane, str(task.queue), task.cost)
                self.tenants.refund(task.lane, task.queue.tenant, task.cost)

    @precondition(lambda self: self.hands)
    @rule(consumer=consumers)
    def renew(self, consumer: str) -> None:
        """Renew the leases of everything that is out, one's own and others'."""
        held = [(task_id, number) for task_id, (_, number) in self.hands.items()]
        answers = self.do(self.scripts.renew(consumer, held, lease_seconds=LEASE))
        for (task_id, _), answer in zip(held, answers, strict=True):
            own = self.hands[task_id][0] == consumer
            good = Renewed.CANCEL if task_id in self.cancelled else Renewed.RENEWED
            assert answer is (good if own else Renewed.STALE)

    @precondition(lambda self: self.stale)
    @rule(pick=picks)
    def speak_out_of_turn(self, pick: int) -> None:
        """Whatever a former owner says changes nothing."""
        task_id, number = self.stale[-1 - pick % len(self.stale)]
        before = self.seen
        assert self.do(self.scripts.complete([(task_id, number)]))[0] in {Completed.STALE, Completed.GONE}
        answer = self.do(self.scripts.release([GivenBack(task_id, number, 20.0, refund=True)]))[0]
        assert answer in {Released.STALE, Released.GONE}
        assert self.do(self.scripts.renew(CONSUMERS[0], [(task_id, number)], lease_seconds=LEASE)) == [Renewed.STALE]
        assert self.look() == before

    # Time -------------------------------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([1, 10, 25, 61]))
    def advance(self, seconds: int) -> None:
        """Let time pass."""
        self.bench.time.advance(seconds)

    @rule()
    def forget(self) -> None:
        """Let the time to live of keys pass."""
        keys = self.bench.queue.keys
        doomed = [keys.named(key) for key in self.look().mortal]
        if doomed:
            self.do(self.bench.clients.commands.delete(*doomed))

    # What must be true ------------------------------------------------------------------------------------------------

    @invariant()
    def everything_stands_where_it_belongs(self) -> None:
        """After every step."""
        now = self.look()
        assert now.faults(self.open, self.bench.time.ms) == []
        self.told |= {f"wake:{lane}" for lane, _ in now.scheduled().keys() - self.seen.scheduled().keys()}
        assert self.told <= set(now.lists), "somebody was not told that there is something to do"
        self.told.clear()
        assert self.queues.unfair(set(now.scheduled()), tenant_of) == []
        assert self.tenants.unfair(set(now.scheduled_tenants()), lambda _: "") == []
        self.seen = now

    def picked(self, some: Any, pick: int, count: int = 1) -> list[UUID]:
        """Choose some of the tasks."""
        ids = list(some)
        start = pick % len(ids)
        return ids[start : start + count]

    def teardown(self) -> None:
        """Work everything off: nothing has fallen out of the schedule, and nothing is left."""
        try:
            for _ in range(60):
                if not self.open:
                    break
                self.settle()
                self.everything_stands_where_it_belongs()
                for lane in LANES:
                    self.dispatch(lane, 4, QUANTUM, "fifo")
                    self.everything_stands_where_it_belongs()
                    if self.unread():
                        self.read(lane, CONSUMERS[0], 100)
                if self.hands:
                    self.complete(0, 100)
                self.advance(21)
                self.promote()
                self.everything_stands_where_it_belongs()
            assert not self.open, f"never served: {self.look().faults(self.open, self.bench.time.ms) or self.open}"
            after = self.look()
            assert not any(after.streams.values())
            assert {key for key in after.lists if not key.startswith("wake:")} == set()
        finally:
            self.do(self.bench.clients.close())
            self.loop.close()


async def on_empty_redis(settings: Settings) -> Bench:
    """Return an opened queue without anything that the run before left."""
    clients = RedisClients(settings.redis, name="test")
    await clients.commands.flushall()
    await clients.close()
    return await Bench.opened(settings)


def tenant_of(queue: str) -> str:
    """Return the tenant of a queue."""
    return queue.split(":")[1]


@pytest.mark.timeout(600)
def test_any_sequence_of_steps_keeps_everything_in_its_place(redis_url: str) -> None:
    """No task vanishes or is in two places, counters equal a recount, and whoever can be served is in the schedule."""
    examples = os.environ.get("MACHINE_EXAMPLES")
    run_state_machine_as_test(
        partial(QueueMachine, Settings(redis=RedisSettings(url=SecretStr(redis_url)))),  # type: ignore[arg-type]  # whatever makes a machine will do
        settings=hypothesis.settings(
            max_examples=int(examples or 200),
            stateful_step_count=40,
            derandomize=examples is None,
            database=None,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(hypothesis.HealthCheck),
        ),
    )
