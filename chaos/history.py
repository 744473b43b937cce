"""Every change of a task's state, noted by PostgreSQL itself beside the change: the ledger's own memory of a run.

The product keeps no such history. A trigger of the test database does, so that the checker need not believe the code
under test about when a task ran.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

INSTALL: Final = """
CREATE TABLE IF NOT EXISTS chaos_history (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    task_id uuid NOT NULL, tenant text NOT NULL, queue text NOT NULL, lane text NOT NULL, object text,
    cost float8 NOT NULL, before text, state text, fence bigint NOT NULL, attempts int NOT NULL, runner text
);
CREATE OR REPLACE FUNCTION chaos_note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        INSERT INTO chaos_history (task_id, tenant, queue, lane, object, cost, before, state, fence, attempts, runner)
        VALUES (OLD.id, OLD.tenant, OLD.queue, OLD.lane, OLD.object, OLD.cost, OLD.state, NULL, OLD.fence, OLD.attempts,
                OLD.runner);
        RETURN OLD;
    END IF;
    IF TG_OP = 'INSERT' OR NEW.state <> OLD.state OR NEW.fence <> OLD.fence THEN
        INSERT INTO chaos_history (task_id, tenant, queue, lane, object, cost, before, state, fence, attempts, runner)
        VALUES (NEW.id, NEW.tenant, NEW.queue, NEW.lane, NEW.object, NEW.cost,
                CASE WHEN TG_OP = 'UPDATE' THEN OLD.state END, NEW.state, NEW.fence, NEW.attempts, NEW.runner);
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER chaos_note AFTER INSERT OR UPDATE OR DELETE ON task
    FOR EACH ROW EXECUTE FUNCTION chaos_note();
"""

_READ: Final = """
SELECT extract(epoch FROM at)::float8 AS at, task_id, tenant, queue, lane, object, cost, before, state, fence, attempts,
       runner
FROM chaos_history ORDER BY seq
"""


@dataclass(frozen=True, slots=True)
class Change:
    """One change: ``before`` is None for a task that was accepted, ``state`` None for a row that was removed."""

    at: float
    task_id: UUID
    tenant: str
    queue: str
    lane: str
    object: str | None
    cost: float
    before: str | None
    state: str | None
    fence: int
    attempts: int
    runner: str | None


@dataclass(frozen=True, slots=True)
class Interval:
    """A task ran from ``begin`` to ``end`` (None: it still runs) under a fence; then it was in ``state``."""

    task_id: UUID
    tenant: str
    object: str | None
    fence: int
    runner: str | None
    begin: float
    end: float | None
    state: str | None


async def read_history(connection: Any) -> list[Change]:
    """Return all changes, those of one task in their order; none where no history was kept."""
    if not await connection.fetchval("SELECT to_regclass('chaos_history') IS NOT NULL"):
        return []
    return [Change(**{**dict(row), "task_id": UUID(str(row["task_id"]))}) for row in await connection.fetch(_READ)]


def intervals_of(changes: list[Change]) -> list[Interval]:
    """Return when each task ran; a start under a newer fence ends the interval of the older one."""
    running: dict[UUID, Change] = {}
    found: list[Interval] = []
    for change in changes:
        began = running.pop(change.task_id, None)
        if began is not None:
            found.append(_interval(began, change.at, change.state))
        if change.state == "running":
            running[change.task_id] = change
    return found + [_interval(began, None, "running") for began in running.values()]


def _interval(began: Change, end: float | None, state: str | None) -> Interval:
    return Interval(began.task_id, began.tenant, began.object, began.fence, began.runner, began.at, end, state)
