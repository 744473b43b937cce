"""I3 and I5: tasks of an object run one at a time, in the order of their acceptance; fences only grow."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from math import inf
from uuid import UUID

from chaos.check.evidence import Evidence
from chaos.history import Interval
from chaos.journal import Accepted, Asked


def serial(evidence: Evidence) -> Iterator[str]:
    """I3: running intervals of an object do not overlap, and what was accepted first is over before the next begins.

    First is a task whose 202 came before the other's request; requests that overlap have no order.
    """
    by_object: defaultdict[tuple[str, str], list[Interval]] = defaultdict(list)
    first_start: dict[UUID, float] = {}
    for interval in evidence.intervals():
        first_start[interval.task_id] = min(interval.begin, first_start.get(interval.task_id, inf))
        if interval.object is not None:
            by_object[interval.tenant, interval.object].append(interval)
    for (tenant, name), intervals in by_object.items():
        intervals.sort(key=lambda each: each.begin)
        for one, other in pairwise(intervals):
            if one.task_id != other.task_id and (one.end is None or one.end > other.begin):
                yield f"tasks {one.task_id} and {other.task_id} of object {name} of {tenant} ran at the same time"
    yield from _out_of_order(evidence, first_start)


def _out_of_order(evidence: Evidence, first_start: dict[UUID, float]) -> Iterator[str]:
    asked: dict[str, float] = {}
    for request in evidence.records(Asked):
        asked.setdefault(request.key, request.at)
    told: dict[UUID, Accepted] = {}
    for answer in evidence.records(Accepted):
        if answer.object is not None:
            told.setdefault(UUID(answer.task), answer)
    ends = {row.id: row.finished for row in evidence.rows}
    queues: defaultdict[tuple[str, str | None], list[UUID]] = defaultdict(list)
    for task_id, answer in told.items():
        queues[answer.tenant, answer.object].append(task_id)
    for (_, name), members in queues.items():
        earlier = sorted(members, key=lambda each: told[each].at)
        latest: UUID | None = None
        done = 0
        for task_id in sorted(members, key=lambda each: asked[told[each].key]):
            # Of all that were answered before this one was asked for, the one that was over last.
            while done < len(earlier) and told[earlier[done]].at < asked[told[task_id].key]:
                candidate = earlier[done]
                if latest is None or (ends.get(candidate) or inf) > (ends.get(latest) or inf):
                    latest = candidate
                done += 1
            begun = first_start.get(task_id)
            if latest is not None and begun is not None and begun < (ends.get(latest) or inf):
                yield f"task {task_id} of object {name} began before {latest}, accepted before it, was over"


def fences(evidence: Evidence) -> Iterator[str]:
    """I5: each start has a fence of its own, one higher than the last; nothing else changes it."""
    seen: dict[UUID, int] = {}
    for change in evidence.changes:
        before = seen.get(change.task_id, 0)
        wanted = before + 1 if change.state == "running" else before
        if change.fence != wanted:
            yield f"task {change.task_id} became {change.state} under fence {change.fence} instead of {wanted}"
        seen[change.task_id] = change.fence
    for row in evidence.rows:
        if evidence.changes and row.fence != seen.get(row.id, row.fence):
            yield f"task {row.id} has fence {row.fence}, its last change was under {seen[row.id]}"
