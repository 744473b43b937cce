"""Lets virtual time pass: tasks arrive, a scheduler hands them out, runners work, die and come back."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Final

import numpy as np

from detectsched.settings import Settings
from detectsched.simulate.arrivals import Tasks
from detectsched.simulate.backlog import Backlog
from detectsched.simulate.machines import Runner
from detectsched.simulate.record import End, Record
from detectsched.simulate.scheduler import Decisions, LaneNews, News, Scheduler, VirtualClock

_REPORT_EVERY: Final = 500  # tasks between two words about progress
_BUFFERED: Final = 5000  # arrivals kept back at most, while no slot is free


class _Event(IntEnum):
    """What can happen, in the order in which simultaneous events are taken."""

    FINISHED = 1
    DIED = 2
    FORGOTTEN = 3
    """The record of a dead runner has expired: the dispatcher counts on it no more."""
    RETURNED = 4
    LEASE_OVER = 5
    DUE = 6


class Simulation:
    """One run of one policy; `run` returns what happened.

    The scheduler is only asked when its answer could change something: arrivals are kept back while no slot of their
    lane is free, which changes nothing in what is decided, since nothing is. With ``late`` (seconds, tasks) the run is
    given up when more than so many tasks have waited longer than that: what is asked is answered.
    """

    def __init__(
        self,
        tasks: Tasks,
        runners: Sequence[Runner],
        scheduler: Scheduler,
        clock: VirtualClock,
        settings: Settings,
        *,
        progress: Callable[[int], None] = lambda _: None,
        late: tuple[float, int] | None = None,
    ) -> None:
        self._tasks = tasks
        self._runners = runners
        self._scheduler = scheduler
        self._clock = clock
        self._settings = settings
        self._progress = progress
        self._late_after, self._late_allowed = late or (float("inf"), 0)
        self._late = 0
        self._lanes = sorted({device.lane for device in tasks.devices})
        self._serving = {lane: [one for one in runners if lane in one.slots] for lane in self._lanes}
        self._events: list[tuple[float, int, int, int]] = []
        self._next = 0
        self._news = News()
        self._runners_changed = False
        self._tries = np.zeros(len(tasks), dtype=np.int64)
        self._is_served = dict.fromkeys(self._lanes, True)
        self._returned_at: dict[str, float] = {}
        self._due_at: float | None = None
        self._backlog = Backlog(tasks, self._lanes)
        self.record = Record.empty(tasks, runners)
        for runner in runners:
            for start, end in runner.outages:
                self._schedule(start, _Event.DIED, runner.number)
                self._schedule(end, _Event.RETURNED, runner.number)

    async def run(self) -> Record:
        """Let time pass until every task has ended."""
        ended = 0
        while (now := self._next_moment()) is not None and self._late <= self._late_allowed:
            self._let_time_pass(now)
            self._take_arrivals(now)
            self._take_events(now)
            await self._act()
            if self.record.ended_count - ended >= _REPORT_EVERY:
                ended = self.record.ended_count
                self._progress(ended)
        self._progress(self.record.ended_count)
        return self.record

    # Time -------------------------------------------------------------------------------------------------------------

    def _next_moment(self) -> float | None:
        arrival = self._tasks.arrival[self._next] if self._next < len(self._tasks) else None
        event = self._events[0][0] if self._events else None
        if self.record.ended_count == len(self._tasks):
            return None
        moments = [float(moment) for moment in (arrival, event) if moment is not None]
        return min(moments) if moments else None

    def _schedule(self, when: float, what: _Event, subject: int, serial: int = 0) -> None:
        heapq.heappush(self._events, (when, what, subject, serial))

    def _let_time_pass(self, now: float) -> None:
        passed = now - self._clock.seconds
        for lane in self._lanes:
            free = sum(runner.free(lane) for runner in self._serving[lane])
            self.record.account(lane, passed, free, min(free, self._backlog.eligible[lane]), self._serving[lane])
        self._clock.seconds = now

    def _take_arrivals(self, now: float) -> None:
        until = int(np.searchsorted(self._tasks.arrival, now, side="right"))
        for task in range(self._next, until):
            self._news.arrived.append(task)
            self._backlog.arrive(task)
        self._next = until

    # Events -----------------------------------------------------------------------------------------------------------

    def _take_events(self, now: float) -> None:
        while self._events and self._events[0][0] <= now:
            _, what, subject, serial = heapq.heappop(self._events)
            if what is _Event.FINISHED:
                self._finish(subject, serial)
            elif what is _Event.LEASE_OVER:
                self._news.lost.append(subject)
                self._backlog.come_back(subject)
            elif what is _Event.DUE:
                self._news.due, self._due_at = True, None
            else:
                self._change_runner(self._runners[subject], _Event(what), serial)

    def _finish(self, task: int, serial: int) -> None:
        if self._tries[task] != serial:
            return  # its runner died meanwhile
        runner = self._runners[self.record.runner[task]]
        runner.end(task)
        self._backlog.leave(task)
        seconds = self._clock.seconds - float(self.record.last_start[task])
        self.record.end(task, End.DONE, self._clock.seconds)
        self._news.finished.append((task, seconds))

    def _change_runner(self, runner: Runner, what: _Event, serial: int) -> None:
        now, scheduler = self._clock.seconds, self._settings.scheduler
        if what is _Event.DIED:
            runner.alive = False
            self._schedule(now + self._settings.runner.ttl_seconds, _Event.FORGOTTEN, runner.number, runner.boot)
            for task in list(runner.running):
                runner.end(task)
                self._tries[task] += 1
                # The latest moment by which the reaper has found it.
                self._schedule(now + scheduler.lease_seconds + scheduler.sweep_seconds, _Event.LEASE_OVER, task)
        elif what is _Event.FORGOTTEN:
            if runner.boot == serial and not runner.alive:
                runner.known = False
        else:
            runner.alive = runner.known = True
            runner.boot += 1
        self._runners_changed = True

    # Decisions --------------------------------------------------------------------------------------------------------

    async def _act(self) -> None:
        news = self._news
        news.lanes = {lane: self._lane_news(lane) for lane in self._lanes if self._worth_asking(lane)}
        urgent = news.lanes or news.finished or news.lost or news.due or self._runners_changed
        if not urgent and len(news.arrived) < _BUFFERED:
            return
        self._news, self._runners_changed = News(), False
        self._carry_out(await self._scheduler.step(news))

    def _worth_asking(self, lane: str) -> bool:
        """Whether something could be started, or a change of who serves the lane is to be told."""
        known = any(runner.known for runner in self._serving[lane])
        if known is not self._is_served[lane]:
            return True
        if self._backlog.waiting[lane] == 0:
            return False
        return not known or any(runner.free(lane) > 0 for runner in self._serving[lane])

    def _lane_news(self, lane: str) -> LaneNews:
        known = [runner for runner in self._serving[lane] if runner.known]
        returned = bool(known) and not self._is_served[lane]
        self._is_served[lane] = bool(known)
        if returned and self._backlog.waiting[lane]:
            self._returned_at[lane] = self._clock.seconds
        return LaneNews(known, self._backlog.waiting[lane], returned)

    def _carry_out(self, decisions: Decisions) -> None:
        now = self._clock.seconds
        for task, runner in decisions.started:
            lane = self._tasks.devices[self._tasks.device[task]].lane
            if lane in self._returned_at:
                self.record.resumptions.append(now - self._returned_at.pop(lane))
            runner.start(task, lane)
            self._backlog.start(task)
            self._tries[task] += 1
            self._late += now - self._tasks.arrival[task] > self._late_after
            self.record.start(task, runner.number, now)
            duration = float(self._tasks.seconds[task]) / runner.speed
            self._schedule(now + duration, _Event.FINISHED, task, int(self._tries[task]))
        for end, tasks in ((End.EXPIRED, decisions.expired), (End.DEAD, decisions.dead)):
            for task in tasks:
                self._backlog.drop(task)
                self.record.end(task, end, now)
        self._expect(decisions.next_due)

    def _expect(self, due: float | None) -> None:
        if due is not None and (self._due_at is None or due < self._due_at):
            self._due_at = due
            self._schedule(due, _Event.DUE, 0)
