"""The product's own scheduler: the Lua scripts, through `queueing.queue.Queue`, told the virtual time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Iterator, Sequence
from itertools import islice
from typing import Any, Final
from uuid import UUID

from detectsched.errors import StoreUnavailable
from detectsched.queueing.connection import RedisClients
from detectsched.queueing.queue import Completion, Dispatched, GivenBack, Placement, Promoted, Result, Turns
from detectsched.queueing.round_trips import RoundTripQueue
from detectsched.settings import NoRunner, Settings
from detectsched.simulate.arrivals import Tasks
from detectsched.simulate.machines import Runner
from detectsched.simulate.scheduler import Decisions, LaneNews, News, VirtualClock
from detectsched.task import QueuedTask

_AT_ONCE: Final = 500  # tasks, queues or elements in one call

LEAST_MEASURED_SECONDS: Final = 0.02
"""Runners do not report the time of shorter tasks (`runner.worker`): the noise is larger than the work."""


class ScriptScheduler:
    """One shard of its own, under the policy of the settings.

    Only what the dispatcher does with scripts is done here, in the same order: dispatch, then runners read the stream;
    defer while nobody serves a lane, resume when somebody does, promote when due.
    """

    def __init__(
        self, clients: RedisClients, settings: Settings, tasks: Tasks, clock: VirtualClock, *, may_defer: bool
    ) -> None:
        self._clients = clients
        self._settings = settings
        self._queue = RoundTripQueue(clients, settings, now_ms=clock)
        self._tasks = tasks
        self._clock = clock
        self._may_defer = may_defer
        self._deliveries: dict[int, int] = {}
        self._unread = dict.fromkeys(settings.lanes, 0)
        self._first = dict.fromkeys(settings.lanes, 0)
        scheduler = settings.scheduler
        self._turns = Turns.of(scheduler)

    @classmethod
    async def opened(
        cls, settings: Settings, tasks: Tasks, clock: VirtualClock, *, may_defer: bool = True
    ) -> ScriptScheduler:
        """Open an empty shard under the settings' prefix; without ``may_defer`` nothing is ever put off.

        Raises:
            StoreUnavailable: the server is away, or somebody else uses this prefix.
        """
        scheduler = cls(RedisClients(settings.redis, name="simulate"), settings, tasks, clock, may_defer=may_defer)
        rebuild = scheduler._queue.rebuild
        token = await rebuild.begin()
        if token is None:
            raise StoreUnavailable(f"another process is using the prefix {settings.redis.prefix}")
        await rebuild.wipe(token, settings.lanes)
        await rebuild.open(token)
        await scheduler._queue.join()
        return scheduler

    async def step(self, news: News) -> Decisions:
        """Tell the scripts what has happened, ask them for each lane, and let the runners read what was sent."""
        decisions = Decisions()
        # A crowd that arrives at once is told of in several round trips, or one would take longer than the time-out.
        crowd = iter(news.arrived[:-_AT_ONCE])
        while some := list(islice(crowd, _AT_ONCE)):
            await self._queue.scripts.enqueue([self._placement(task) for task in some])
        # The rest in one round trip, and in this order on the server.
        calls: list[Awaitable[Any]] = [*self._reports(news)]
        if news.due or any(lane.returned or not lane.runners for lane in news.lanes.values()):
            await asyncio.gather(*calls)
            calls = []
            await self._rarities(news, decisions)
        asked = {name: lane for name, lane in news.lanes.items() if lane.runners}
        readers = {name: self._readers(name, lane) for name, lane in asked.items()}
        for name, lane in asked.items():
            calls.append(self._dispatch(name, lane.runners))
            calls += [self._read(name, runner, room, decisions) for runner, room in readers[name]]
        if self._may_defer:
            calls.append(self._promote_once())
        answers = await asyncio.gather(*calls)
        dispatched = [answer for answer in answers if isinstance(answer, Dispatched)]
        for (name, lane), done in zip(asked.items(), dispatched, strict=True):
            await self._finish_lane(name, lane, done, decisions)
        promoted = [answer for answer in answers if isinstance(answer, Promoted)]
        if promoted:
            decisions.next_due = self._due(promoted[0])
        return decisions

    def _reports(self, news: News) -> Iterator[Awaitable[Any]]:
        scripts = self._queue.scripts
        if news.arrived:
            yield scripts.enqueue([self._placement(task) for task in news.arrived[-_AT_ONCE:]])
        if news.finished:
            yield scripts.complete([self._completion(task, seconds) for task, seconds in news.finished])
        if news.lost:
            # As the reaper does: not refunded, since it was run.
            yield scripts.release([GivenBack(UUID(int=task + 1), self._deliveries.pop(task)) for task in news.lost])

    def _placement(self, task: int) -> Placement:
        device = self._tasks.devices[self._tasks.device[task]]
        arrival = float(self._tasks.arrival[task])
        queued = QueuedTask(
            id=UUID(int=task + 1),
            queue=device.queue,
            lane=device.lane,
            sequence=task + 1,
            cost=float(self._tasks.cost[task]),
            created_ms=self._clock.ms_at(arrival),
            expires_ms=self._clock.ms_at(arrival + self._settings.scheduler.task_ttl_seconds),
            mac=device.mac,
        )
        return Placement(queued, device.entitlement.with_default_limit(self._settings.scheduler.device_in_flight))

    def _completion(self, task: int, seconds: float) -> Completion:
        measured = seconds if seconds >= LEAST_MEASURED_SECONDS else None
        return Completion(UUID(int=task + 1), self._deliveries.pop(task), Result.GOOD, measured)

    async def _rarities(self, news: News, decisions: Decisions) -> None:
        if news.due:
            while (await self._promote_once()).next_due_seconds == 0:
                pass
        for name, lane in news.lanes.items():
            if not lane.runners:
                await self._defer(name, decisions)
            elif lane.returned:
                more = True
                while more:
                    _, more = await self._queue.scripts.resume(name, limit=_AT_ONCE)

    def _readers(self, name: str, lane: LaneNews) -> list[tuple[Runner, int]]:
        """Return who reads how many: those with free slots, as many as there could be anything for."""
        # Whoever asks first gets the next; nobody is always first.
        start = self._first[name] = (self._first[name] + 1) % len(lane.runners)
        readers, wanted = [], lane.waiting
        for runner in (*lane.runners[start:], *lane.runners[:start]):
            if (room := min(runner.free(name), wanted)) > 0:
                readers.append((runner, room))
                wanted -= room
        return readers

    def _dispatch(self, lane: str, runners: Sequence[Runner]) -> Awaitable[Dispatched]:
        capacity, live = sum(runner.slots[lane] for runner in runners), [runner.consumer for runner in runners]
        return self._queue.scripts.dispatch(lane, capacity=capacity, live=live, turns=self._turns)

    async def _read(self, lane: str, runner: Runner, room: int, decisions: Decisions) -> None:
        for delivery in await self._queue.read_now(lane, runner.consumer, count=room):
            task = delivery.task_id.int - 1
            self._unread[lane] -= 1
            self._deliveries[task] = delivery.number
            decisions.started.append((task, runner))

    async def _finish_lane(self, name: str, lane: LaneNews, done: Dispatched, decisions: Decisions) -> None:
        """Go on where one look was not enough: after long expired backlogs, or with more room than one call fills."""
        self._unread[name] += done.sent
        expired = done.expired
        while done.more:
            done = await self._dispatch(name, lane.runners)
            self._unread[name] += done.sent
            expired += done.expired
        if self._unread[name]:
            taken = Counter(runner.number for _, runner in decisions.started)
            for runner in lane.runners:
                room = min(runner.free(name) - taken[runner.number], self._unread[name])
                if room > 0:
                    await self._read(name, runner, room, decisions)
        if expired:
            await self._settle(decisions)

    async def _defer(self, lane: str, decisions: Decisions) -> None:
        more, given_up = True, 0
        scheduler = self._settings.scheduler
        policy = "dead_letter" if scheduler.no_runner is NoRunner.DEAD_LETTER else "defer"
        while more:
            done = await self._queue.scripts.defer(lane, policy=policy, max_defers=scheduler.max_defers, limit=_AT_ONCE)
            more, given_up = done.more, given_up + done.given_up
        if given_up:
            await self._settle(decisions)

    async def _settle(self, decisions: Decisions) -> None:
        while elements := await self._queue.settlements(_AT_ONCE):
            for element in elements:
                word, _, task_id = element.decode().partition("|")
                (decisions.expired if word == "expired" else decisions.dead).append(UUID(task_id).int - 1)
            await self._queue.scripts.settle(elements)

    def _promote_once(self) -> Awaitable[Promoted]:
        return self._queue.scripts.promote(
            lease_seconds=self._settings.scheduler.lease_seconds, limit=_AT_ONCE, lanes=self._settings.lanes
        )

    def _due(self, done: Promoted) -> float | None:
        """Return the virtual time of what will be due next."""
        seconds = done.next_due_seconds
        return None if seconds is None else self._clock.seconds_until(seconds * 1000)

    async def close(self) -> None:
        """Remove every key of this shard and close the connections."""
        try:
            await self._queue.rebuild.discard()
        finally:
            await self._clients.close()
