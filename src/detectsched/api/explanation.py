"""Why a task waits, in words: every obstacle between it and its start, and an estimate of when that will be.

Pure: from how the task stands in Redis and what the runners say of themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from detectsched.queueing.queue import Capacity, Standing, WorkerRecord
from detectsched.task import QueueKind


class Obstacle(StrEnum):
    """What keeps a task from its start; stable words for programs."""

    NOT_QUEUED_YET = "not_queued_yet"
    """Accepted, and not in Redis at this moment: it is being queued, or the queues are being rebuilt."""
    HANDED_OUT = "handed_out"
    """It is next: a runner fetches it as soon as it has a free slot."""
    HELD = "held"
    """It ran when Redis lost its data: its runner may still finish it."""
    ENDING = "ending"
    """Its end is decided, and is being written to the ledger."""
    LANE_PAUSED = "lane_paused"
    TENANT_PAUSED = "tenant_paused"
    DEVICE_PAUSED = "device_paused"
    NO_RUNNER = "no_runner"
    """Its lane has no runner at all."""
    RUNNERS_NOT_HEALTHY = "runners_not_healthy"
    """Its lane has runners, and none of them takes work now."""
    RUNNERS_FULL = "runners_full"
    """All slots of its lane are taken."""
    DELAYED = "delayed"
    """It may not start before a time: a retry's back-off, or not_before."""
    BACK_OFF = "back_off"
    """Its queue backs off: its tasks failed, or its lane had no runner."""
    PROBING = "probing"
    """After a back-off its queue runs one task at a time until one succeeds."""
    IN_FLIGHT_LIMIT = "in_flight_limit"
    """As many of its queue run as may; an object's tasks run one at a time."""
    RATE_LIMIT = "rate_limit"
    TENANT_RATE_LIMIT = "tenant_rate_limit"
    BEHIND_OWN = "behind_own"
    """Tasks of its own queue are before it."""
    BEHIND_OTHERS = "behind_others"
    """Other queues have their turn first."""


@dataclass(frozen=True, slots=True)
class Reason:
    """One obstacle; ``until_ms`` is when it ends by itself (milliseconds since the epoch), if that is known."""

    obstacle: Obstacle
    detail: str
    until_ms: int | None = None


NOT_QUEUED_YET: Final = Reason(
    Obstacle.NOT_QUEUED_YET, "it is accepted and on its way into the queues, or they are being made anew"
)


def reasons(
    standing: Standing,
    capacity: Capacity,
    workers: Sequence[WorkerRecord],
    *,
    notes: Mapping[Obstacle, str] | None = None,
) -> list[Reason]:
    """Return everything that a task waits for, the weightiest first; ``notes`` tells why something was paused."""
    if standing.state in {"withdrawn", "settling"}:
        return [Reason(Obstacle.ENDING, "its end is decided, and is being written to the ledger")]
    if standing.state == "streamed":
        return [
            Reason(Obstacle.HANDED_OUT, "it is next: a runner fetches it as soon as it has a free slot"),
            *_runners(standing, capacity, workers),
        ]
    if standing.state == "held":
        return [
            Reason(Obstacle.HELD, f"it ran on {standing.owner} when Redis lost its data; that runner may finish it")
        ]
    return [
        *_pauses(standing, notes or {}),
        *_runners(standing, capacity, workers),
        *_times(standing),
        *_limits(standing),
        *_places(standing),
    ]


def estimated_start_seconds(standing: Standing, capacity: Capacity, *, batch: int) -> float | None:
    """Estimate how long until a task starts; None when nothing measured allows it, or a pause stands in the way.

    The work ahead is that of its own queue, and for each turn of it one turn (``batch`` standard tasks) of every
    competitor, tenants first and queues second, at the lane's measured pace over its slots; but no less than what a
    queue with an in-flight limit needs for what is before it.
    """
    paused = standing.paused_lane_ms or standing.paused_tenant_ms or standing.paused_subject_ms
    if paused or not capacity.slots or standing.lane_seconds is None:
        return None
    blocked = max(standing.until_ms, standing.ready_ms, standing.tenant_until_ms) - standing.now_ms
    # What is out beyond the slots is before it; one that is not out itself needs a slot to come free as well.
    work = float(max(0, standing.outstanding - capacity.slots + (standing.state != "streamed")))
    if standing.state != "streamed":
        turns = standing.ahead_cost // batch + 1
        competitors = max(0, standing.queues - 1) * max(1, standing.tenants) + max(0, standing.tenants - 1)
        work += standing.ahead_cost * max(1, standing.tenants) + competitors * min(
            turns * batch, standing.ahead_cost + 1
        )
    seconds = work * standing.lane_seconds / capacity.slots
    if limit := _limit_of(standing):
        seconds = max(seconds, (standing.ahead_cost + standing.inflight) / limit * standing.lane_seconds)
    return max(0.0, blocked / 1000) + seconds


def as_lifo(standing: Standing) -> Standing:
    """Return how a task stands where the newest of a device queue comes first: what came after it is before it."""
    if standing.state != "queued" or standing.queue.startswith(f"{QueueKind.OBJECT.value}:"):
        return standing
    ahead = max(0, standing.pending - 1 - standing.ahead)
    # What those cost is not known; most tasks cost about one.
    return replace(standing, ahead=ahead, ahead_cost=float(ahead))


def summary(found: Sequence[Reason]) -> str:
    """Return the answer for a waiting task in one sentence."""
    if not found:
        return "It waits for nothing but its turn, which is next."
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return f"It waits: {found[0].detail}{more}."


def why_not_serving(worker: WorkerRecord, capacity: Capacity) -> str:
    """Return why a runner takes no tasks of a lane now, or '' if it does."""
    if worker.consumer in capacity.consumers:
        return ""
    if worker.state == "healthy":
        return "it has no GPU, and the lane is for runners that have one"
    return worker.reason or f"it is {worker.state}"


def _pauses(standing: Standing, notes: Mapping[Obstacle, str]) -> Iterator[Reason]:
    for since, obstacle, words in (
        (standing.paused_lane_ms, Obstacle.LANE_PAUSED, f"the lane {standing.lane} is paused"),
        (standing.paused_tenant_ms, Obstacle.TENANT_PAUSED, "the tenant is paused"),
        (standing.paused_subject_ms, Obstacle.DEVICE_PAUSED, "its device or object is paused"),
    ):
        if since:
            note = notes.get(obstacle)
            yield Reason(obstacle, f"{words}: {note}" if note else words)


def _runners(standing: Standing, capacity: Capacity, workers: Sequence[WorkerRecord]) -> Iterator[Reason]:
    serving = [worker for worker in workers if worker.slots_of(standing.lane) > 0]
    if not capacity.has_runner:
        others = "" if not serving else ": " + "; ".join(_why_not(worker, capacity) for worker in serving)
        yield Reason(Obstacle.NO_RUNNER, f"no runner serves the lane {standing.lane}{others}")
    elif not capacity.slots:
        yield Reason(Obstacle.RUNNERS_NOT_HEALTHY, "; ".join(_why_not(worker, capacity) for worker in serving))
    elif standing.outstanding - (standing.state == "streamed") >= capacity.slots:
        yield Reason(
            Obstacle.RUNNERS_FULL,
            f"all {capacity.slots} slots of the lane {standing.lane} are taken: {standing.outstanding} tasks are out",
        )


def _why_not(worker: WorkerRecord, capacity: Capacity) -> str:
    return f"{worker.name}: {why_not_serving(worker, capacity)}"


def _times(standing: Standing) -> Iterator[Reason]:
    if standing.ready_ms > standing.now_ms:
        yield Reason(Obstacle.DELAYED, "it may not start before its time (a retry, or not_before)", standing.ready_ms)
    if standing.tenant_until_ms > standing.now_ms:
        yield Reason(Obstacle.TENANT_RATE_LIMIT, "its tenant has used up its rate", standing.tenant_until_ms)
    if standing.until_ms > standing.now_ms:
        if standing.tokens is not None and standing.tokens < 1:
            yield Reason(Obstacle.RATE_LIMIT, "its device has used up its rate", standing.until_ms)
        else:
            why = (
                f"tries at its tasks failed, {standing.failures} in a row"
                if standing.failures
                else f"its lane had no runner {standing.defers} times"
                if standing.defers
                else "its head waits for its time"
            )
            yield Reason(Obstacle.BACK_OFF, f"its queue backs off: {why}", standing.until_ms)


def _limits(standing: Standing) -> Iterator[Reason]:
    limit = _limit_of(standing)
    if limit and standing.inflight >= limit:
        if standing.probing:
            yield Reason(Obstacle.PROBING, "after its back-off its queue runs one task at a time until one succeeds")
        else:
            yield Reason(Obstacle.IN_FLIGHT_LIMIT, f"{standing.inflight} of at most {limit} of its queue run now")


def _limit_of(standing: Standing) -> int:
    return 1 if standing.probing or standing.queue.startswith(f"{QueueKind.OBJECT.value}:") else standing.limit


def _places(standing: Standing) -> Iterator[Reason]:
    if standing.ahead:
        yield Reason(Obstacle.BEHIND_OWN, f"{standing.ahead} tasks of its own queue are before it")
    if standing.queue_rank is not None and standing.tenant_rank is not None:
        before = standing.queue_rank + standing.tenant_rank
        if before:
            yield Reason(
                Obstacle.BEHIND_OTHERS,
                f"{standing.tenant_rank} of {standing.tenants} tenants and {standing.queue_rank} of {standing.queues} "
                "queues of its own tenant have their turn before its queue",
            )
