"""Any sequence of steps by any number of actors: after each, everything stands where it belongs.

A state machine drives the real scripts with a clock of its own and looks at the raw keys after each step. Time to live
that the server itself keeps is played by removing whatever has one. ``MACHINE_EXAMPLES`` makes it run for longer, at
random.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule, run_state_machine_as_test
from pydantic import SecretStr

from chaos.snapshot import OUT, Snapshot
from detectsched.queueing.queue import (
    Completed,
    Completion,
    Enqueued,
    GivenBack,
    Placement,
    Released,
    Renewed,
    Result,
    Taker,
    Turns,
    Withdrawn,
)
from detectsched.settings import RedisSettings, SchedulerSettings, Settings
from detectsched.task import Delivery
from tests.queueing.operators import Operators
from tests.queueing.world import CONSUMERS, COST, LANES, LEASE, QUANTUM, REAPER, SOMETIMES, entitlement_of, tenant_of
from tests.support.actors import device_task, object_task
from tests.support.machines import machine_settings, patient

lanes, consumers = st.sampled_from(LANES), st.sampled_from(CONSUMERS)
tenants, numbers = st.sampled_from("ab"), st.integers(1, 2)
picks = st.integers(0, 7)
_FAILURE_THRESHOLD = 2


class QueueMachine(Operators):
    """Devices, objects, dispatchers, runners, a reaper, a settler, a rebuilder and a clock."""

    @initialize(devices=st.lists(st.tuples(tenants, numbers, lanes), min_size=2, max_size=6))
    def begin(self, devices: list[tuple[str, int, str]]) -> None:
        """Begin with something to do."""
        for tenant, number, lane in devices:
            self.accept_of_device(tenant, number, lane, 1.0, 3600, 0, late=False)
            self.accept_of_object(tenant, number, lane, 3600, 0, late=False)

    # The API ----------------------------------------------------------------------------------------------------------

    def enter(self, placement: Placement) -> None:
        """Queue an accepted task."""
        assert self.do(self.scripts.enqueue([placement])) == [Enqueued.QUEUED]
        self.open[placement.task.id] = placement
        if placement.task.not_before_ms > self.bench.time.ms and placement.task.mac is not None:
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
        placement = Placement(task, entitlement_of("mac", tenant, number))
        self.late.append(placement) if late else self.enter(placement)

    @rule(
        tenant=tenants,
        number=numbers,
        lane=lanes,
        ttl=st.sampled_from([3600, 15]),
        delay=st.sampled_from([0, 0, 0, 20]),
        late=st.booleans(),
    )
    def accept_of_object(self, tenant: str, number: int, lane: str, ttl: int, delay: int, *, late: bool) -> None:
        """Accept a task of an object."""
        task = object_task(f"door {number}", self.bench.time, lane=lane, tenant=tenant)
        task = replace(task, expires_ms=self.bench.time.ms + ttl * 1000)
        if delay:
            task = replace(task, not_before_ms=self.bench.time.ms + delay * 1000)
        placement = Placement(task, entitlement_of("object", tenant, number))
        self.late.append(placement) if late else self.enter(placement)

    @precondition(lambda self: self.late)
    @rule(pick=picks)
    def queue_late(self, pick: int) -> None:
        """Queue a task after others that were accepted later."""
        placement = self.late.pop(pick % len(self.late))
        others = (self.open[other].task for other in self.seen.waiting(str(placement.task.queue)))
        late = any(other.sequence > placement.task.sequence for other in others)
        self.note("a task was queued after a later one", late)
        self.enter(placement)

    @rule(tenant=tenants, number=numbers, lane=lanes)
    def overtake(self, tenant: str, number: int, lane: str) -> None:
        """Accept two tasks of an object; the second is queued first."""
        self.accept_of_object(tenant, number, lane, 3600, 0, late=True)
        self.accept_of_object(tenant, number, lane, 3600, 0, late=False)
        self.look_around()
        self.queue_late(len(self.late) - 1)

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
            self.note("a withdrawn task lay in a list", self.look().state(task_id) != "")

    # The dispatcher ---------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.seen.scheduled())
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
        assert self.judge_sent(before, after, lane) == done.sent <= room
        if not done.more and done.sent < room:
            left = [tenant for at, tenant in after.scheduled_tenants() if at == lane]
            assert not left or f"lane:{lane}" in self.paused, "work and room are left"

    def judge_sent(self, before: Snapshot, after: Snapshot, lane: str) -> int:
        """Judge what was sent: due, not paused, within its limit, in order, and charged; return how much it was."""
        sent = [i for i in self.open if after.state(i) == "streamed" and before.state(i) == "queued"]
        for task_id in sent:
            task = self.open[task_id].task
            self.queues.serve(lane, str(task.queue), task.cost)
            self.tenants.serve(lane, task.queue.tenant, task.cost)
            assert task.expires_ms > self.bench.time.ms, "sent after its time to live"
            assert task.not_before_ms <= self.bench.time.ms, "sent before its time"
            assert not self.is_paused(lane, task.queue), "sent although it is paused"
            out = [i for i in self.open if self.open[i].task.queue == task.queue and after.state(i) in OUT]
            most = 1 if "probing" in before.meta(str(task.queue)) else self.open[task_id].entitlement.limit
            assert len(out) <= (most or len(out)), "sent beyond the limit"
            if str(task.queue).startswith("object:"):
                rest = [self.open[other].task.sequence for other in after.waiting(str(task.queue))]
                assert all(task.sequence < other for other in rest), "sent before an earlier one of its object"
        for name in {str(self.open[task_id].task.queue) for task_id in sent}:
            costs = [self.open[i].task.cost for i in sent if str(self.open[i].task.queue) == name]
            self.check_key(before.scheduled(), after.scheduled(), lane, name, sum(costs), tenant_of)
        for tenant in {self.open[task_id].task.queue.tenant for task_id in sent}:
            costs = [self.open[i].task.cost for i in sent if self.open[i].task.queue.tenant == tenant]
            self.check_key(
                before.scheduled_tenants(), after.scheduled_tenants(), lane, tenant, sum(costs), lambda _: ""
            )
        return len(sent)

    @precondition(lambda self: self.seen.zsets.get("deferred"))
    @rule()
    def promote(self) -> None:
        """Bring back what is due."""
        due = [member for member, at in self.seen.zsets.get("deferred", {}).items() if at <= self.bench.time.ms]
        done = self.do(self.scripts.promote(lease_seconds=LEASE, limit=100, lanes=LANES))
        self.note("a delayed task came back", any(member.startswith("task:") for member in due))
        self.note("an object waited out a back-off", any(member.startswith("queue:object:") for member in due))
        self.note("a held task was handed over", done.held != ())
        for lost in done.held:
            assert self.hands[lost.task_id][1] == lost.number
        assert (done.next_due_seconds is None) == ("deferred" not in self.look().zsets)

    @precondition(lambda self: self.hands)
    @rule(pick=picks)
    def reclaim(self, pick: int) -> None:
        """Take every delivery of a lane from its owner."""
        [task_id] = self.picked(self.hands, pick)
        lane = self.open[task_id].task.lane
        for lost in self.do(self.scripts.reclaim(lane, REAPER, lease_seconds=0.0, limit=100)):
            assert self.hands[lost.task_id][1] == lost.number
            self.hands[lost.task_id] = (REAPER, lost.number)
            self.note("a delivery was reclaimed")

    @precondition(lambda self: self.seen.lists.get("settlement"))
    @rule()
    def settle(self) -> None:
        """Empty the settlement list."""
        elements = self.do(self.bench.queue.settlements(100))
        for element in elements:
            decision, _, task_id = element.decode().partition("|")
            task = self.open.pop(UUID(task_id)).task
            assert decision == "dead" or task.expires_ms <= self.bench.time.ms
            self.note("an expired task was settled", decision == "expired")
        assert self.do(self.scripts.settle(elements)) == len(elements)

    @precondition(lambda self: self.open)
    @rule()
    def rebuild(self) -> None:
        """Lose everything; make it anew from what is open, as the ledger has it."""
        queue = self.bench.queue
        self.do(self.bench.clients.commands.flushall())
        token = self.do(self.bench.queue.rebuild.is_needed(LANES, check_policy=True)) and self.do(queue.rebuild.begin())
        self.do(queue.rebuild.wipe(token, LANES))
        self.do(queue.rebuild.set_paused(dict.fromkeys(self.paused, self.bench.time.ms)))
        placements = []
        self.note("a rebuild found tasks that were running", self.hands != {})
        for task_id, placement in sorted(self.open.items(), key=lambda each: each[1].task.sequence):
            owner, number = self.hands.get(task_id, ("", self.started.get(task_id, 0)))
            due = self.bench.time.ms + round(LEASE * 1000) if owner else placement.task.not_before_ms
            task = replace(placement.task, not_before_ms=due, delivery=number)
            placements.append(replace(placement, task=task, held_by=owner))
        self.do(queue.rebuilding(token).enqueue(placements))
        self.do(queue.rebuild.open(token))
        self.cancelled.clear()
        self.queues.forget()
        self.tenants.forget()

    @precondition(lambda self: self.hands)
    @rule()
    def rebuild_without_its_runners(self) -> None:
        """Lose everything, and the runners with it: what they had is handed over when its lease is over."""
        self.rebuild()
        self.look_around()
        self.advance(61)
        self.promote()

    # The runners ------------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.unread())
    @rule(lane=lanes, consumer=consumers, count=st.integers(1, 4))
    def read(self, lane: str, consumer: str, count: int) -> None:
        """Fetch deliveries."""
        for delivery in self.do(self.bench.queue.read(lane, consumer, count=count, block_seconds=0.001)):
            self.receive(consumer, delivery)

    def receive(self, consumer: str, delivery: Delivery) -> None:
        """Take a delivery in hand."""
        assert delivery.task_id in self.open
        assert delivery.task_id not in self.hands
        assert delivery.number > self.started.get(delivery.task_id, 0)
        self.hands[delivery.task_id] = (consumer, delivery.number)
        self.started[delivery.task_id] = delivery.number

    @precondition(lambda self: self.seen.scheduled())
    @rule(lane=lanes, consumer=consumers)
    def serve(self, lane: str, consumer: str) -> None:
        """Let a runner have what it has room for."""
        self.dispatch(lane, 4, QUANTUM, "fifo")
        self.look_around()
        if self.unread():
            self.read(lane, consumer, 4)

    @precondition(lambda self: self.seen.zsets.get("deferred"))
    @rule()
    def wait_until_due(self) -> None:
        """Wait for the longest back-off there is, and bring back what is due."""
        self.advance(41)
        self.promote()

    @precondition(lambda self: self.hands)
    @rule(pick=picks, count=st.integers(1, 3), result=st.sampled_from(Result))
    def complete(self, pick: int, count: int, result: Result) -> None:
        """End tasks in hand."""
        done = [self.drop(task_id) for task_id in self.picked(self.hands, pick, count)]
        completions = [Completion(*one, result) for one in done]
        assert self.do(self.scripts.complete(completions)) == [Completed.DONE] * len(done)
        self.told |= {f"wake:{self.open.pop(task_id).task.lane}" for task_id, _ in done}

    @precondition(lambda self: self.hands)
    @rule(pick=picks, consumer=consumers)
    def complete_and_take(self, pick: int, consumer: str) -> None:
        """End a task in hand, and take the lane's next into its place, which is what the dispatcher would send."""
        [task_id] = self.picked(self.hands, pick)
        before, lane = self.seen, self.open[task_id].task.lane
        unread = self.unread(lane)
        done = Completion(*self.drop(task_id), Result.GOOD, taker=Taker(consumer, lane))
        [succession] = self.do(self.scripts.succeed([done]))
        assert succession.completed is Completed.DONE
        del self.open[task_id]
        after = self.look()
        sent = self.judge_sent(before, after, lane)
        assert sent == int(succession.next is not None and not unread)
        if succession.next is not None:
            self.receive(consumer, succession.next)
            self.note("a runner took the next task by itself")
        elif f"lane:{lane}" not in self.paused:
            # A head that has expired uses up the look.
            assert not [tenant for at, tenant in after.scheduled_tenants() if at == lane] or "settlement" in after.lists
        self.told |= {f"wake:{lane}"} if not succession.next else set()

    @precondition(lambda self: self.hands)
    @rule(
        pick=picks,
        count=st.integers(1, 3),
        delay=st.sampled_from([0.0, 0.0, 20.0]),
        refund=st.booleans(),
        failed=st.booleans(),
    )
    def release(self, pick: int, count: int, delay: float, *, refund: bool, failed: bool = False) -> None:
        """Give tasks in hand back."""
        back = [self.drop(task_id) for task_id in self.picked(self.hands, pick, count)]
        given = [GivenBack(i, number, delay, refund=refund, failed=failed) for i, number in back]
        answers = self.do(self.scripts.release(given))
        assert answers == [Released.RELEASED] * len(back)
        for task_id, _ in back:
            task = self.open[task_id].task
            self.told |= {f"wake:{task.lane}", *(["wake:@deferred"] if delay and task_id not in self.cancelled else [])}
            if refund:
                self.queues.refund(task.lane, str(task.queue), task.cost)
                self.tenants.refund(task.lane, task.queue.tenant, task.cost)

    @precondition(lambda self: self.hands)
    @rule(pick=picks, consumer=consumers)
    def fail_in_a_row(self, pick: int, consumer: str) -> None:
        """Let a task fail again as soon as it is handed out again: its queue backs off."""
        [task_id] = self.picked(self.hands, pick)
        for _ in range(2 * _FAILURE_THRESHOLD):
            if task_id in self.hands and task_id not in self.cancelled:
                self.release(list(self.hands).index(task_id), 1, 0.0, refund=False, failed=True)
                self.look_around()
                self.serve(self.open[task_id].task.lane, consumer)
                self.look_around()

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

    @precondition(lambda self: self.hands)
    @rule(pick=picks, consumer=consumers)
    def change_hands(self, pick: int, consumer: str) -> None:
        """Give a task back, so that another has it, or it waits; then speak as its former owner."""
        [task_id] = self.picked(self.hands, pick)
        self.release(pick, 1, 0.0, refund=False)
        self.look_around()
        self.serve(self.open[task_id].task.lane, consumer)
        self.look_around()
        self.speak_out_of_turn(-1)

    @precondition(lambda self: self.stale)
    @rule(pick=picks)
    def speak_out_of_turn(self, pick: int) -> None:
        """Whatever a former owner says changes nothing."""
        task_id, number = self.stale[pick % len(self.stale)]
        self.note("a former owner spoke while another held the task", task_id in self.hands)
        before = self.seen
        assert self.do(self.scripts.complete([Completion(task_id, number)]))[0] in {Completed.STALE, Completed.GONE}
        answer = self.do(self.scripts.release([GivenBack(task_id, number, 20.0, refund=True)]))[0]
        assert answer in {Released.STALE, Released.GONE}
        assert self.do(self.scripts.renew(CONSUMERS[0], [(task_id, number)], lease_seconds=LEASE)) == [Renewed.STALE]
        assert self.look() == before

    # Time -------------------------------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([1, 10, 25, 61]))
    def advance(self, seconds: int) -> None:
        """Let time pass."""
        self.bench.time.advance(seconds)

    @precondition(lambda self: self.seen.mortal)
    @rule()
    def forget(self) -> None:
        """Let the time to live of keys pass."""
        keys = self.bench.queue.keys
        self.do(self.bench.clients.commands.delete(*map(keys.named, self.seen.mortal)))

    # The end ----------------------------------------------------------------------------------------------------------

    def teardown(self) -> None:
        """Work everything off: nothing has fallen out of the schedule, and nothing is left."""
        try:
            for what in sorted(self.paused):
                self.set_paused(what, paused=False)
            for lane in LANES:
                self.meet_runner(lane)
            self.look_around()
            for _ in range(80):
                if not self.open:
                    break
                self.settle()
                self.look_around()
                for lane in LANES:
                    self.dispatch(lane, 4, QUANTUM, "fifo")
                    self.look_around()
                    if self.unread():
                        self.read(lane, CONSUMERS[0], 100)
                if self.hands:
                    self.complete(0, 100, Result.GOOD)
                self.advance(41)
                self.promote()
                self.look_around()
            assert not self.open, f"never served: {self.look().faults(self.open, self.bench.time.ms) or self.open}"
            after = self.look()
            assert not any(after.streams.values())
            assert {key for key in after.lists if not key.startswith("wake:")} == set()
        finally:
            self.do(self.bench.clients.close())
            self.loop.close()


@patient
def test_any_sequence_of_steps_keeps_everything_in_its_place(redis_url: str) -> None:
    """No task vanishes or is in two places, counters equal a recount, and whoever can be served is in the schedule."""
    met: set[str] = set()
    settings = Settings(
        redis=RedisSettings(url=SecretStr(redis_url)),
        scheduler=SchedulerSettings(
            failure_threshold=_FAILURE_THRESHOLD, backoff_base_seconds=10, backoff_max_seconds=40
        ),
    )
    run_state_machine_as_test(
        partial(QueueMachine, settings, met),  # type: ignore[arg-type]  # whatever makes a machine will do
        settings=machine_settings(200),
    )
    assert met >= SOMETIMES, f"never met: {SOMETIMES - met}"
