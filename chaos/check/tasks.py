"""I1 and I4: what was accepted is there, once; what has ended stays as it ended, with one result."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from uuid import UUID

from chaos.check.evidence import STATES, TERMINAL, Evidence
from chaos.journal import Accepted, Asked, Told


def conservation(evidence: Evidence) -> Iterator[str]:
    """I1: every task that a client was told of is in the ledger, in a known state; a key names one task."""
    yield from _told(evidence)
    for key, count in Counter(row.key for row in evidence.rows if row.key).items():
        if count > 1:
            yield f"key {key} has {count} rows"
    asked = {record.key for record in evidence.records(Asked)}
    for row in evidence.rows:
        if row.state not in STATES:
            yield f"task {row.id} is in the unknown state {row.state!r}"
        if asked and row.key not in asked and not row.redriven:
            yield f"task {row.id} is in the ledger, and nobody asked for it"
    for change in evidence.changes:
        if change.state is None:
            yield f"task {change.task_id} was removed while it was {change.before}"


def _told(evidence: Evidence) -> Iterator[str]:
    rows = {row.id: row for row in evidence.rows}
    tasks_of_key: defaultdict[str, set[str]] = defaultdict(set)
    for told in evidence.records(Accepted):
        tasks_of_key[told.key].add(told.task)
        row = rows.get(UUID(told.task))
        if row is None:
            yield f"task {told.task} was accepted under {told.key} and is not in the ledger"
        elif row.tenant != told.tenant:
            yield f"task {told.task} was accepted for {told.tenant} and belongs to {row.tenant}"
    for key, tasks in tasks_of_key.items():
        if len(tasks) > 1:
            yield f"key {key} was answered with {len(tasks)} tasks: {sorted(tasks)}"


def one_result(evidence: Evidence) -> Iterator[str]:
    """I4: a success has one judgement, under its own fence; nothing else has one; an end is for good, and is told."""
    for row in evidence.rows:
        if row.state == "succeeded" and row.judged_under != row.fence:
            yield f"task {row.id} succeeded under fence {row.fence}, its judgement is of {row.judged_under}"
        if row.state != "succeeded" and row.judged_under is not None:
            yield f"task {row.id} is {row.state} and has a judgement"
        if row.state != "running" and row.detection == "processing":
            yield f"task {row.id} is {row.state}, its detection is still processing"
    for change in evidence.changes:
        if change.before in TERMINAL and change.state not in {change.before, None}:
            yield f"task {change.task_id} was {change.before} and became {change.state}"
    for (task_id, kind), bodies in evidence.messages.items():
        if bodies > 1:
            yield f"{bodies} different messages of kind {kind} were written for task {task_id}"
    yield from _messages(evidence)


def _messages(evidence: Evidence) -> Iterator[str]:
    bodies: defaultdict[UUID, set[str]] = defaultdict(set)
    for told in evidence.records(Told):
        bodies[UUID(told.message)].add(told.digest)
    for message, digests in bodies.items():
        if len(digests) > 1:
            yield f"message {message} came with {len(digests)} different bodies"
    for message in evidence.delivered - set(bodies):
        yield f"message {message} is delivered in the ledger, and never came"
    for task_id in evidence.untold:
        yield f"task {task_id} is over, and the message that was asked for was never written"
