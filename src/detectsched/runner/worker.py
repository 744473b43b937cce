"""The way of one delivery through a runner: start, examine, persist, acknowledge."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from detectsched import failpoints
from detectsched.attempt import EngineRead, Refused, Started
from detectsched.clock import monotonic
from detectsched.detection import Detection, EngineResult
from detectsched.errors import StoreUnavailable
from detectsched.queueing.queue import Completion, GivenBack, Result, Taker
from detectsched.runner.completer import Completer
from detectsched.runner.desk import Job
from detectsched.runner.executor import Executor
from detectsched.runner.outcome import Outcome, Stop, Verdict, ending_of, outcome_of
from detectsched.settings import Settings
from detectsched.task import Delivery
from detectsched.telemetry import get_logger

log = get_logger(__name__)

_START_AGAIN_SECONDS: Final = 1.0
_LEAST_MEASURED_SECONDS: Final = 0.02
"""Shorter work says more about this machine's scheduler than about the task: its estimate stands."""
_RESULTS: Final = {Verdict.SUCCEEDED: Result.GOOD, Verdict.FAILED: Result.BAD, Verdict.DEAD: Result.BAD}


class Worker:
    """Works on jobs; one worker serves all of a runner's lanes.

    ``may_work`` is asked before a task is started; ``published`` returns when the registry knows the answer.
    ``taker_of`` says who takes the next task of a lane into the place of a completed one; None: the dispatcher decides.
    ``fenced`` counts starts that came to nothing, since their task had passed to another: refused by PostgreSQL, or
    not even written.
    """

    def __init__(
        self,
        executor: Executor,
        completer: Completer,
        settings: Settings,
        *,
        may_work: Callable[[], bool],
        published: Callable[[], Awaitable[None]],
        taker_of: Callable[[str], Taker | None] = lambda _: None,
    ) -> None:
        self._executor = executor
        self._completer = completer
        self._scheduler = settings.scheduler
        self._timeout = settings.runner.task_timeout_seconds
        self._may_work = may_work
        self._published = published
        self._taker_of = taker_of
        self.fenced = 0

    async def work(self, job: Job) -> Delivery | None:
        """Bring one delivery to its end, and return the one that is in hand in its place, if any.

        Every way out of here is one terminal call, or leaves the delivery to its lease.
        """
        delivery = job.delivery
        if job.stop is not None or not self._may_work():
            # Published first, or the dispatcher could send it straight back to us.
            await self._published()
            await self._completer.give_back(GivenBack(delivery.task_id, delivery.number, refund=True))
            return None
        try:
            started = await self._completer.start(delivery)
        except StoreUnavailable:
            # Whether it was started is not known; the next delivery takes it over in any case.
            delay = _START_AGAIN_SECONDS
            await self._completer.give_back(GivenBack(delivery.task_id, delivery.number, delay, refund=True))
            return None
        if started is Refused.ENDED:
            return await self._acknowledge(job, Completion(delivery.task_id, delivery.number))
        if started is Refused.UNKNOWN:
            delay = self._scheduler.backoff_base_seconds
            await self._completer.give_back(GivenBack(delivery.task_id, delivery.number, delay, refund=True))
            log.warning("left to a newer release, which knows its kind", task=str(delivery.task_id))
            return None
        if isinstance(started, Started):
            failpoints.hit("run.after_start_mark")
            outcome, detection = await self._examine(job, started)
            return await self._conclude(job, started, outcome, detection)
        return None

    async def _examine(self, job: Job, started: Started) -> tuple[Outcome, Detection | None]:
        async def keep(result: EngineResult) -> None:
            read = EngineRead(started.delivery.task_id, started.tenant, started.fence, result, started.seal)
            if not await self._completer.save_read(read):
                job.interrupt(Stop.LEASE_LOST)

        async def examine() -> Detection:
            async with asyncio.timeout(self._timeout):
                return await self._executor.examine(started, keep)

        if job.stop is None:
            examining = asyncio.create_task(examine())
            job.examining = examining
            began = monotonic()
            await asyncio.wait([examining])
            job.seconds = monotonic() - began
            job.examining = None
            error: BaseException | None = asyncio.CancelledError() if examining.cancelled() else examining.exception()
            detection = None if error else examining.result()
        else:
            error, detection = asyncio.CancelledError(), None
        if isinstance(error, asyncio.CancelledError) and job.stop is None:
            raise error
        outcome = outcome_of(
            error,
            stop=job.stop,
            attempts=started.attempts,
            settings=self._scheduler,
            confidential=started.seal is not None,
        )
        if outcome.error is not None:
            log.warning(
                "task not examined",
                task=str(started.delivery.task_id),
                verdict=outcome.verdict.value,
                reason=outcome.error.reason,
                detail=outcome.error.detail,
            )
        return outcome, detection

    async def _conclude(
        self, job: Job, started: Started, outcome: Outcome, detection: Detection | None
    ) -> Delivery | None:
        delivery = started.delivery
        if outcome.verdict is Verdict.LOST:
            self.fenced += 1
            log.warning("lease lost, nothing written", task=str(delivery.task_id), fence=started.fence)
            return None
        written = await self._completer.persist(job, ending_of(started, outcome, detection))
        if not written:
            self.fenced += written is False
            event = "write fenced off" if written is False else "not written, left to the lease"
            log.warning(event, task=str(delivery.task_id), fence=started.fence)
            return None
        if outcome.verdict in {Verdict.RETRY, Verdict.GIVEN_BACK}:
            again = outcome.verdict is Verdict.GIVEN_BACK
            await self._completer.give_back(
                GivenBack(delivery.task_id, delivery.number, outcome.delay_seconds, refund=again, failed=not again)
            )
            return None
        successor = await self._acknowledge(job, _completion_of(job, outcome))
        if outcome.verdict is Verdict.DEAD:
            await self._completer.mirror_dead_letter(delivery.task_id)
        return successor

    async def _acknowledge(self, job: Job, done: Completion) -> Delivery | None:
        taker = None if job.stop else self._taker_of(job.delivery.lane)
        succession = await self._completer.acknowledge(replace(done, taker=taker))
        return None if succession is None else succession.next


def _completion_of(job: Job, outcome: Outcome) -> Completion:
    measured = outcome.verdict is Verdict.SUCCEEDED and job.seconds >= _LEAST_MEASURED_SECONDS
    return Completion(
        job.delivery.task_id,
        job.delivery.number,
        _RESULTS.get(outcome.verdict, Result.NONE),
        job.seconds if measured else None,
    )
