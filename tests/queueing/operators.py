"""What operators and absent runners do to the queues, as rules of the queue machine."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from detectsched.queueing.queue import concerned, paused_lane, paused_subject, paused_tenant
from detectsched.task import QueueId
from tests.queueing.world import LANES, World
from tests.support.actors import mac_number

_MAX_DEFERS = 2


class Operators(World):
    """Pauses, and lanes without runners."""

    @rule(
        what=st.sampled_from(["device", "object", "tenant", "lane"]),
        tenant=st.sampled_from("ab"),
        lane=st.sampled_from(LANES),
    )
    def pause(self, what: str, tenant: str, lane: str) -> None:
        """Pause something."""
        name = {
            "device": paused_subject(QueueId.of_device(tenant, lane, mac_number(1))),
            "object": paused_subject(QueueId.of_object(tenant, "door 1")),
            "tenant": paused_tenant(tenant),
            "lane": paused_lane(lane),
        }[what]
        waiting = any(f":{tenant}" in queue for _, queue in self.seen.scheduled())
        self.note("something was paused that waited", waiting)
        self.set_paused(name, paused=True)

    @precondition(lambda self: self.paused)
    @rule(pick=st.integers(0, 7))
    def go_on(self, pick: int) -> None:
        """End a pause."""
        names = sorted(self.paused)
        self.set_paused(names[pick % len(names)], paused=False)

    def set_paused(self, name: str, *, paused: bool) -> None:
        """Pause, or go on."""
        lanes, queues = concerned(name, LANES)
        self.do(self.scripts.pause(name, paused=paused, lanes=lanes, queues=queues))
        self.paused.add(name) if paused else self.paused.remove(name)
        self.told |= {f"wake:{lane}" for lane in lanes}

    def is_paused(self, lane: str, queue: QueueId) -> bool:
        """Whether nothing of a queue may be served in a lane."""
        return not self.paused.isdisjoint({paused_lane(lane), paused_tenant(queue.tenant), paused_subject(queue)})

    @precondition(lambda self: self.seen.scheduled())
    @rule(lane=st.sampled_from(LANES), policy=st.sampled_from(["defer", "defer", "dead_letter"]))
    def miss_runners(self, lane: str, policy: str) -> None:
        """Find no runner in a lane: its queues back off, or lose their heads."""
        while True:
            done = self.do(self.scripts.defer(lane, policy=policy, max_defers=_MAX_DEFERS, limit=5))
            self.note("a lane without runners gave up on a task", done.given_up > 0)
            if not done.more:
                break
        if paused_lane(lane) not in self.paused:
            assert not [tenant for at, tenant in self.look().scheduled_tenants() if at == lane]

    @rule(lane=st.sampled_from(LANES))
    def meet_runner(self, lane: str) -> None:
        """Find a runner in a lane again."""
        before = self.look()
        more = True
        while more:
            resumed, more = self.do(self.scripts.resume(lane, limit=3))
            self.note("a runner ended a back-off", resumed > 0)
        assert f"unserved:{lane}" not in self.look().strings
        assert before.places() == self.look().places()
