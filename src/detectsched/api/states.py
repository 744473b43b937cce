"""How tasks, devices, tenants, lanes and runners stand, and what became of decisions, as callers get it."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from detectsched.api.explanation import Obstacle
from detectsched.api.schemas import ListVersion, ResponseModel
from detectsched.settings import Policy
from detectsched.task import TaskKind, TaskState


class PauseState(ResponseModel):
    """Whether something is paused (a runner: drained), since when, why and by whom."""

    paused: bool
    since: datetime | None = None
    reason: str | None = None
    by: str | None = None


class LaneSlots(ResponseModel):
    """How many tasks of a lane a runner works on at once."""

    lane: str
    slots: int


class RunnerState(ResponseModel):
    """A runner as it reported itself last."""

    name: str
    """Host and process id."""
    label: str
    """The name by which it is drained; several runners may share one."""
    state: str
    """`healthy`, `busy` (pressed: it takes nothing new), `unhealthy` (a person is needed) or `stopping`."""
    reason: str
    """Why it is not healthy."""
    drained: bool
    """Whether operators have its label drained."""
    lanes: list[LaneSlots]
    active_tasks: int
    cpu_percent: float
    memory_percent: float
    gpu_available: bool
    gpu_util: float | None
    """Percent; null where it cannot be measured."""
    gpu_memory_util: float | None
    engine: str
    version: str
    last_heartbeat: str
    word_lists: list[ListVersion]
    """The versions of the caller's word lists that it has compiled, the last used first."""


class DrainState(PauseState):
    """A label whose runners are drained, or not any more."""

    label: str


class RunnerPage(ResponseModel):
    """All runners that reported within their time to live, and all labels that are drained."""

    items: list[RunnerState]
    drained: list[DrainState]


class WaitReason(ResponseModel):
    """Something that keeps a task from its start."""

    obstacle: Obstacle
    """A stable word."""
    detail: str
    """The same for people."""
    until: datetime | None
    """When it ends by itself; null if nobody knows."""


class Places(ResponseModel):
    """Where a waiting task stands."""

    ahead: int
    """Tasks before it in its own queue."""
    ahead_cost: float
    """Their cost in standard tasks (of the first thousand)."""
    queue_rank: int | None
    """Queues of its tenant that are served before its own; null while its queue is not in the round."""
    queues: int
    """Queues of its tenant in the round of its lane."""
    tenant_rank: int | None
    """Tenants that are served before its own."""
    tenants: int
    """Tenants in the round of its lane."""


class Scores(ResponseModel):
    """What its queue is ordered by under each policy; only that of `policy` is in force.

    The lowest key or sequence is served first, and the highest aging score.
    """

    policy: Policy
    virtual_key: float
    """`fair`: work received ÷ weight."""
    aging_score: float
    """`aging`: seconds the head of its queue has waited, up to a maximum, × a weight."""
    fifo_sequence: int
    """`fifo`: the place of the head of its queue among all tasks ever accepted."""


class ServingRunner(ResponseModel):
    """A runner of the task's lane."""

    name: str
    label: str
    serving: bool
    """Whether it takes tasks of this lane now."""
    reason: str
    """Why it does not."""
    slots: int
    active_tasks: int


class Explanation(ResponseModel):
    """Why a task waits."""

    task_id: UUID
    state: TaskState
    lane: str
    summary: str
    """The answer in one sentence."""
    reasons: list[WaitReason]
    """Every obstacle, the weightiest first; empty for a task that runs or has ended, and for one whose turn it is."""
    places: Places | None
    """Null unless it is in its queue."""
    scores: Scores | None
    estimated_start_seconds: float | None
    """How long until it starts, if all goes on as it does; null if that cannot be told."""
    runners: list[ServingRunner]


class DeviceQueue(ResponseModel):
    """A device's queue in one lane."""

    lane: str
    waiting: int
    """Tasks in the queue; those that are delayed are not."""
    in_flight: int
    in_round: bool
    """Whether it is among the queues that are served in turn; an empty, paused, limited or backed-off one is not."""
    virtual_key: float
    aging_score: float
    since: datetime | None
    """When it entered the round, or was last served."""
    backed_off_until: datetime | None
    failures: int
    """Tries at its tasks that failed in a row."""
    deferrals: int
    """How often it backed off in a row for want of a runner."""


class ObjectState(ResponseModel):
    """An object, what is set for it, and how it stands."""

    object: str
    """Its name in the form that identifies it."""
    word_lists: list[str] | None
    """Its own lists; null: the tenant's default lists."""
    backlog: int
    """Tasks waiting."""
    in_flight: int
    """1 while one of its tasks is with a runner."""
    lane: str | None
    """The lane in which its next task waits for its turn; null when nothing of it may start now."""
    pause: PauseState | None
    backed_off_until: datetime | None
    failures: int
    """Tries at its tasks that failed in a row."""


class DeviceState(ResponseModel):
    """A device, what it may have, and how it stands."""

    mac: str
    name: str
    weight: float | None
    """Its own; null: the tenant's `device_weight`."""
    effective_weight: float
    in_flight_limit: int
    """Most tasks of one lane that run at once; 0: no limit."""
    rate: float
    """Most tasks started per second in one lane; 0: no limit."""
    burst: int
    backlog: int
    """Tasks that wait, delayed ones included."""
    in_flight: int
    pause: PauseState
    first_seen_at: datetime
    last_seen_at: datetime
    queues: list[DeviceQueue]


class DevicePage(ResponseModel):
    """Devices by MAC address."""

    items: list[DeviceState]
    next_cursor: str | None
    """Give it as `cursor` to get the next page; null on the last."""


class TenantState(ResponseModel):
    """The caller's tenant, what it may have, and how it stands."""

    id: str
    name: str
    weight: float
    """Its share relative to the other tenants."""
    device_weight: float
    """Of devices that have no weight of their own."""
    rate: float
    """Most tasks started per second, of all its devices together; 0: no limit."""
    burst: int
    encrypt_at_rest: bool
    """Whether what is accepted now is encrypted where it is kept."""
    backlog: int
    """Tasks that wait, delayed ones included."""
    pause: PauseState


class LaneView(ResponseModel):
    """A lane, which all tenants share."""

    lane: str
    depth: int
    """Tasks that may start now and have not."""
    running: int
    tenants: int
    """Tenants in the round."""
    queues: int
    """Queues in the round, of the first thousand tenants."""
    outstanding: int
    """Tasks handed to runners and not completed."""
    capacity: int
    """Slots of the runners that take its tasks now."""
    runners: int
    """Runners that serve it, whatever their state."""
    healthy_runners: int
    """Those that take its tasks now."""
    completed: int
    """Tasks completed since the queues were made."""
    seconds_per_cost: float | None
    """The measured pace: seconds of work per standard task, smoothed."""
    backlog_seconds: float | None
    """Seconds that one slot would work on the depth; null before a pace was measured."""
    oldest_wait_seconds: float
    admission: str
    """`any`, or `gpu` while only runners with a GPU may read it."""
    pause: PauseState


class LanePage(ResponseModel):
    """All lanes."""

    items: list[LaneView]


class DeadLetterView(ResponseModel):
    """A task that was given up on, and has not been driven again."""

    id: UUID
    kind: TaskKind
    lane: str
    mac: str | None
    object: str | None
    cost: float
    attempts: int
    reason: str
    """A stable word."""
    detail: str
    created_at: datetime
    died_at: datetime
    redrive_of: UUID | None
    """The dead letter before it, if it was another try already."""


class DeadLetterPage(ResponseModel):
    """Dead letters, the latest first."""

    items: list[DeadLetterView]
    next_cursor: str | None
    """Give it as `cursor` to get the next page; null on the last."""


class DeadLetterGroup(ResponseModel):
    """The dead letters of one reason."""

    reason: str
    count: int
    first_at: datetime
    last_at: datetime


class DeadLetterGroups(ResponseModel):
    """Dead letters by reason, the most frequent first."""

    items: list[DeadLetterGroup]
    count: int


class RedriveOutcome(ResponseModel):
    """What became of a re-drive."""

    matched: int
    """Dead letters that the filter means."""
    redriven: int
    """Those that are new tasks now; 0 in a dry run."""
    left: int
    """Those that are still dead letters: there was no room for more without refusing new work. Come back for them."""


class PurgeOutcome(ResponseModel):
    """What became of a purge."""

    matched: int
    purged: int
    """Those that are gone; 0 in a dry run."""
    left: int
    """Those that are still there: one request removes no more than 10,000. Come back for them."""


def moment_of(ms: int) -> datetime | None:
    """Return a moment that the queues keep in milliseconds since the epoch; 0 means none."""
    return datetime.fromtimestamp(ms / 1000, UTC) if ms else None
