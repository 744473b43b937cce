"""A script whose answer is lost is said again, and has had its effect once: bug reports 3 and 14 (redis-py#1186).

A proxy between client and server swallows one answer; the client cannot know whether the script has run. What Redis
holds afterwards is what it holds when nothing was lost.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from pydantic import SecretStr

from chaos.cluster import connect_to
from chaos.proxy import Proxy
from chaos.snapshot import Snapshot
from detectsched.errors import GenerationLost
from detectsched.queueing import scripts
from detectsched.queueing.queue import Completion, GivenBack, Placement, Result, paused_subject
from detectsched.settings import Settings
from detectsched.task import Entitlement, QueuedTask
from tests.support.actors import DEFAULT_TURNS, Bench, FakeTime, device_task, object_task
from tests.support.waiting import wait_until

LANES = ("ocr", "text")


@dataclass
class Case:
    """A bench in a state in which a script has something to do, and tasks that are the same in both runs."""

    bench: Bench
    tasks: list[QueuedTask]
    token: str = ""
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def calls(self) -> Any:
        """The scripts."""
        return self.bench.queue.scripts

    async def queued(self) -> None:
        """Queue two tasks of a device and two of an object."""
        await self.bench.enqueue(*self.tasks)

    async def in_hand(self) -> None:
        """Have all that may run in hand."""
        await self.queued()
        await self.bench.serve(10)

    async def expired(self) -> None:
        """Have expired tasks on the settlement list."""
        await self.queued()
        self.bench.time.advance(4000)
        await self.bench.serve(10)

    async def deferred(self) -> None:
        """Have a queue that has backed off for want of a runner."""
        await self.queued()
        await self.calls.defer("text", policy="defer", max_defers=3, limit=10)

    async def delayed(self) -> None:
        """Have a task whose delay is over."""
        await self.bench.enqueue(replace(self.tasks[0], not_before_ms=self.bench.time.ms + 1000))
        self.bench.time.advance(2)

    async def miscounted(self) -> None:
        """Have a queue that counts a task in flight that is nowhere."""
        await self.queued()
        key = self.bench.queue.keys.named(f"mac:meta:{str(self.tasks[0].queue).partition(':')[2]}")
        await self.bench.clients.commands.hset(key, "inflight", 3)

    async def lost(self) -> None:
        """Have lost the generation, and have seen it."""
        await self.queued()
        await self.bench.clients.commands.delete(self.bench.queue.keys.generation)
        await self.bench.queue.rebuild.is_needed(LANES, check_policy=False)

    async def begun(self) -> None:
        """Have begun a rebuild."""
        await self.lost()
        token = await self.bench.queue.rebuild.begin()
        assert token is not None
        self.token = token

    def first(self) -> tuple[Any, int]:
        """Return a task in hand and its delivery."""
        return next(iter(self.bench.owners.items()))


Step = Callable[[Case], Awaitable[object]]


async def nothing(_case: Case) -> None:
    """Prepare nothing."""


CASES: dict[str, tuple[Step, Step]] = {
    "admit": (
        Case.queued,
        lambda c: c.calls.admit([(f"default:{c.tasks[0].mac}", 1)], max_total=100, max_subject=1, release=1),
    ),
    "audit": (
        Case.miscounted,
        lambda c: c.calls.audit([str(c.tasks[0].queue)], lanes=LANES, max_out=100),
    ),
    "close": (Case.queued, lambda c: c.bench.queue.damaged("damaged by a test")),
    "begin": (Case.lost, lambda c: c.bench.queue.rebuild.begin()),
    "complete": (Case.in_hand, lambda c: c.calls.complete([Completion(*c.first(), Result.BAD, 0.5)])),
    "defer": (Case.queued, lambda c: c.calls.defer("text", policy="defer", max_defers=3, limit=10)),
    "dispatch": (
        Case.queued,
        lambda c: c.calls.dispatch("text", capacity=2, live=[c.bench.consumer], turns=DEFAULT_TURNS),
    ),
    "enqueue": (
        nothing,
        lambda c: c.calls.enqueue([Placement(task, Entitlement(rate=1.0, burst=2)) for task in c.tasks]),
    ),
    "entitle": (Case.queued, lambda c: c.calls.entitle([(c.tasks[0].queue, "text", Entitlement(weight=3.0))])),
    "explain": (Case.queued, lambda c: c.bench.queue.views.standing(c.tasks[0].id)),
    "mine": (Case.in_hand, lambda c: c.calls.mine("text", c.bench.consumer, limit=10)),
    "observe": (Case.queued, lambda c: c.bench.queue.views.queues([c.tasks[0].queue])),
    "open": (Case.begun, lambda c: c.bench.queue.rebuild.open(c.token)),
    "pause": (
        Case.queued,
        lambda c: c.calls.pause(paused_subject(c.tasks[0].queue), paused=True, lanes=LANES, queues=[c.tasks[0].queue]),
    ),
    "promote": (Case.delayed, lambda c: c.calls.promote(lease_seconds=60, limit=10, lanes=LANES)),
    "prune": (Case.queued, lambda c: c.calls.prune("text", idle_seconds=0)),
    "reclaim": (Case.in_hand, lambda c: c.calls.reclaim("text", "reaper:1", lease_seconds=0, limit=10)),
    "release": (Case.in_hand, lambda c: c.calls.release([GivenBack(*c.first(), 0.0, refund=True)])),
    "renew": (Case.in_hand, lambda c: c.calls.renew(c.bench.consumer, [c.first()], lease_seconds=60)),
    "resume": (Case.deferred, lambda c: c.calls.resume("text", limit=10)),
    "settle": (Case.expired, lambda c: c.calls.settle([f"expired|{task.id}".encode() for task in c.tasks])),
    "wipe": (Case.begun, lambda c: c.bench.queue.rebuild.wipe(c.token, LANES)),
    "withdraw": (Case.queued, lambda c: c.calls.withdraw([c.tasks[1].id])),
    # Writes that are no scripts.
    "mirror": (nothing, lambda c: c.bench.queue.mirror_dead_letters(['{"task_id": 1}'], keep=10)),
    "watermark": (nothing, lambda c: c.bench.queue.publish_watermark("{}", ttl_seconds=9)),
    "admission": (nothing, lambda c: c.bench.queue.admit_cpu("ocr", admitted=True)),
}
"""Per script: what makes it have something to do, and the call."""


def test_every_script_has_a_case() -> None:
    """A new script is not trusted before its answer was lost once."""
    assert set(scripts.NAMES) <= set(CASES)


@asynccontextmanager
async def opened(settings: Settings, proxy: Proxy, tasks: list[QueuedTask]) -> AsyncIterator[Case]:
    """Give a bench behind a proxy, on an empty Redis."""
    url = SecretStr(f"redis://127.0.0.1:{proxy.port}/0")
    behind = settings.model_copy(update={"redis": settings.redis.model_copy(update={"url": url})})
    bench = await Bench.opened(behind)
    try:
        yield Case(bench, tasks)
    finally:
        await bench.clients.commands.flushall()
        await bench.clients.close()


async def effect(case: Case, prepare: Step, act: Step, *, lose: Proxy | None) -> Snapshot:
    """Return what Redis holds after a call, with names that chance or the server's clock has made made alike."""
    await prepare(case)
    if lose is not None:
        lose.lose_replies = 1
    with contextlib.suppress(GenerationLost):
        await act(case)
    if lose is not None:
        assert lose.lose_replies == 0, "no answer was lost"
    held = await Snapshot.read(case.bench.queue, case.bench.clients.commands)
    held.strings.pop("workers_epoch", None)
    held.strings = {name: "1" if name in {"generation", "rebuild"} else value for name, value in held.strings.items()}
    held.streams = {
        name: {str(place): told for place, told in enumerate(entries.values())}
        for name, entries in held.streams.items()
    }
    for task in held.hashes.values():
        if "entry" in task:
            task["entry"] = "1-1"
    return held


@pytest.mark.parametrize("name", CASES)
async def test_an_answer_may_be_lost(settings: Settings, name: str) -> None:
    """The same as if it had come."""
    prepare, act = CASES[name]
    now = FakeTime()
    tasks = [device_task(1, now), device_task(1, now), object_task("door", now), object_task("door", now)]
    proxy = Proxy(connect_to(settings.redis.url.get_secret_value()))
    await proxy.start()
    try:
        async with opened(settings, proxy, tasks) as case:
            right = await effect(case, prepare, act, lose=None)
        async with opened(settings, proxy, tasks) as case:
            assert await effect(case, prepare, act, lose=proxy) == right
            assert right != Snapshot()
    finally:
        await proxy.stop()


async def test_an_opened_gate_is_known_to_be_open(settings: Settings) -> None:
    """The answer to the last step of a rebuild is lost: it is not taken for a rebuild that was lost."""
    proxy = Proxy(connect_to(settings.redis.url.get_secret_value()))
    await proxy.start()
    try:
        async with opened(settings, proxy, [device_task(1, FakeTime())]) as case:
            await case.begun()
            proxy.lose_replies = 1
            assert await case.bench.queue.rebuild.open(case.token)
            await wait_until(case.bench.queue.is_open, "the gate open")
    finally:
        await proxy.stop()
