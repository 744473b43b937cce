"""What callers get. Every field is always there; what may be absent is null."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from detectsched.api.problems import Problem
from detectsched.task import TaskKind, TaskState


class ResponseModel(BaseModel):
    """A document of ours."""

    model_config = ConfigDict(
        json_schema_serialization_defaults_required=True, use_attribute_docstrings=True, from_attributes=True
    )


class SubmittedTask(ResponseModel):
    """A task that is committed and queued, or that was before."""

    task_id: UUID
    state: TaskState
    lane: str
    created_at: datetime
    expires_at: datetime
    """If it has not been started by then, it expires."""
    not_before: datetime | None
    """It is not started before this time."""
    replayed: bool
    """Whether it was accepted by an earlier request with the same Idempotency-Key."""


class LineOutcome(ResponseModel):
    """What became of one line of a batch: `task` or `problem` is set."""

    line: int
    """Its number in the body, from 1; empty lines count."""
    status: int
    """The HTTP status that the line would have got as a request of its own."""
    task: SubmittedTask | None = None
    problem: Problem | None = None


class BatchOutcome(ResponseModel):
    """What became of a batch, line by line, in its order."""

    accepted: int
    """Lines whose task is committed and queued."""
    refused: int
    results: list[LineOutcome]


class Box(ResponseModel):
    """An upright rectangle in pixels of the image as it is shown."""

    left: int
    top: int
    right: int
    bottom: int


class ListVersion(ResponseModel):
    """One published state of a word list."""

    id: str
    version: int


class Hit(ResponseModel):
    """A word found."""

    word: str
    """The word that was sought."""
    matched: str
    """What stands there."""
    category: str
    level: int
    start: int
    """Offset in the text, in code points."""
    end: int
    """Offset behind the last code point."""
    list: ListVersion
    box: Box | None = None
    """Where it stands in the image."""
    rule: str | None = None
    """The kind of the rule that found it; `word` is then its name. Null for a word."""
    tags: tuple[str, ...] = ()
    replacement: str | None = None
    """What the list wants shown in its place."""
    covered: bool = False
    """Whether a longer hit stands over it: summaries leave it out."""


class Line(ResponseModel):
    """One line of text in an image."""

    text: str
    box: Box
    score: float
    """The engine's confidence, 0 to 1."""


class RecordState(StrEnum):
    """How the latest start of a task stands, or ended."""

    PROCESSING = "processing"
    SUCCESS = "success"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    """Given back without having failed; another start follows."""


class Reading(ResponseModel):
    """What an engine made of a payload; text and lines are there when `state` is `success`."""

    state: RecordState
    error: str | None
    started_at: datetime
    finished_at: datetime | None
    engine: str
    version: str
    text: str
    """The lines joined by line breaks; offsets of hits count in this."""
    lines: list[Line]
    width: int | None
    height: int | None
    seconds: float | None
    """The engine's own time."""


class Judgement(ResponseModel):
    """How the search for words stands; hits are there when `state` is `success`."""

    state: RecordState
    error: str | None
    started_at: datetime
    finished_at: datetime | None


class TaskError(ResponseModel):
    """Why a task did not succeed, or why its last try did not."""

    reason: str
    """A stable word."""
    detail: str


class TaskSummary(ResponseModel):
    """A task as lists show it."""

    id: UUID
    kind: TaskKind
    lane: str
    state: TaskState
    mac: str | None
    object: str | None
    """The object's name in the form that identifies it."""
    object_name: str | None
    """The object's name as its sender wrote it."""
    engine: str | None
    """The engine that makes text of the payload; null for what is text already."""
    created_at: datetime
    not_before: datetime | None
    """It is not started before this time."""
    expires_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    attempts: int
    """Tries that failed."""
    cancel_requested: bool
    error: TaskError | None
    hit_count: int
    """Words found; 0 also while nothing was looked for yet."""


class TaskDetail(TaskSummary):
    """A task with everything that is known of it."""

    cost: float
    """In standard tasks: an ordinary text, or a megapixel."""
    word_lists: list[str]
    """The lists that judge it, fixed when it was accepted."""
    media_type: str | None
    file_name: str | None
    reading: Reading | None
    """What was read; null before the first start, and for what is text already."""
    detection: Judgement | None
    """Null before the first start."""
    judged_by: list[ListVersion]
    """The versions of the lists that judged it."""
    top_level: int
    """The highest level of its hits; 0 without any."""
    hits: list[Hit]
    hits_cut: bool
    """Whether there were more; the gravest are kept."""
    shadow_hits: list[Hit]
    """What lists in shadow mode found: nothing follows from it, and no other field counts it."""
    redrive_of: UUID | None
    """The dead letter that it is another try at."""
    redriven_as: UUID | None
    """The task that is another try at this dead letter."""
    callback_url: str | None
    """What is told of its end."""


class TaskPage(ResponseModel):
    """Tasks, newest first."""

    items: list[TaskSummary]
    next_cursor: str | None
    """Give it as `cursor` to get the next page; null on the last."""


class Cancellation(ResponseModel):
    """What cancelling a task came to."""

    task_id: UUID
    state: TaskState
    """`cancelled`, or `running` while its runner is being stopped."""
    cancel_requested: bool


class WordListSummary(ResponseModel):
    """A word list and its current version."""

    id: str
    name: str
    is_default: bool
    """Whether it judges tasks that name no lists."""
    version: int
    """0: nothing was published yet, there is only a draft."""
    word_count: int
    published_at: datetime | None
    shadow: bool
    """Shadow mode: it is matched and counted, but nothing follows from its hits."""
    has_draft: bool


class WordListPage(ResponseModel):
    """The word lists of the caller's tenant."""

    items: list[WordListSummary]


class HealthCheck(ResponseModel):
    """One thing that must be so."""

    name: str
    ok: bool
    detail: str


class Health(ResponseModel):
    """Whether the process is alive or ready; `checks` are given when asked for."""

    ok: bool
    checks: list[HealthCheck]


class LaneScaling(ResponseModel):
    """What of a lane waits, and how many runners it should have."""

    desired: int
    """Runners that would work off the backlog within the target time, at the pace that was measured."""
    backlog: int
    """Tasks that may start now and have not."""
    backlog_seconds: float | None
    """Seconds that one slot would work on them; null before a pace was measured."""
    oldest_wait_seconds: float
    reason: str
    """Why so many, for people."""


class Watermark(ResponseModel):
    """The published level of the system."""

    total_pending: int
    """Tasks waiting."""
    mac_count: int
    """Devices and objects with tasks waiting."""
    active_workers: int
    timestamp: datetime
    drain_per_second: float | None
    """Tasks completed per second, smoothed; null before anything was measured."""
    outstanding: dict[str, int]
    """Per lane, the tasks handed to runners and not completed."""
    lanes: dict[str, LaneScaling] = {}
    """Per lane, what waits and how many runners it should have; empty while PostgreSQL could not be asked."""


def box_of(corners: Any) -> Box | None:
    """Return a box that the ledger keeps as ``[left, top, right, bottom]``."""
    return None if corners is None else Box(left=corners[0], top=corners[1], right=corners[2], bottom=corners[3])
