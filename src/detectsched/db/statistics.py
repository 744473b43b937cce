"""Counting what has ended: from the ledger into hourly sums, each task and each report of a device once.

A trigger notes every end of a task in ``stat_due``, within the transaction of the end; a turn takes notes away and adds
what they stand for, within one transaction. So nothing is counted twice or missed, whatever is killed and however late
a transaction commits: a note that is not visible yet is taken by a later turn (docs/decisions/0015-statistics.md).
At any moment the sums equal a recount of everything that has ended without what is noted: `recount` relies on it.

Whoever changes the sums holds `_LOCK` to the end of the transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from detectsched.db.connection import Connection, Ledger
from detectsched.db.histogram import bucket_sql

_LOCK: Final = 0x7374_6174  # "stat"

REPORTED: Final = "reported"
"""In place of a task's state: a detection that a device made by itself and reported; it has no lane."""

# ruff: noqa: S608 - the parts put together are constants of this file and its neighbours

# Times are those of tasks that their runner ended: of one that ended while it waited, or whose runner fell silent, the
# last start tells nothing.
_MICROSECONDS: Final = "(extract(epoch FROM greatest({}, interval '0')) * 1000000)::bigint"
_WAIT: Final = _MICROSECONDS.format("t.started_at - greatest(t.created_at, t.not_before)")
_RUN: Final = _MICROSECONDS.format("t.finished_at - t.started_at")

_TASK_FACT: Final = f"""
    SELECT t.id AS task_id, NULL::bigint AS report_id, t.tenant, date_trunc('hour', t.finished_at, 'UTC') AS hour,
        coalesce(t.mac, '') AS mac, t.lane, t.state,
        CASE WHEN t.state = 'succeeded' THEN coalesce(d.hit_count, 0) ELSE 0 END AS hits,
        CASE WHEN t.runner IS NOT NULL THEN {_WAIT} END AS wait_us,
        CASE WHEN t.runner IS NOT NULL THEN {_RUN} END AS run_us
    FROM task t LEFT JOIN detection d ON d.task_id = t.id
"""
_REPORT_FACT: Final = f"""
    SELECT NULL::uuid, r.id, r.tenant, date_trunc('hour', r.detected_at, 'UTC'), r.mac, '', '{REPORTED}', r.hit_count,
        NULL::bigint, NULL::bigint
    FROM report r
"""

FACTS_OF_DUE: Final = f"""
    fact AS (
        {_TASK_FACT} WHERE t.id IN (SELECT task_id FROM due)
        UNION ALL
        {_REPORT_FACT} WHERE r.id IN (SELECT report_id FROM due)
    )
"""

_IS_KEPT: Final = """
    NOT EXISTS (SELECT FROM stat_removed x WHERE x.tenant = {tenant} AND x.hour = {hour})
"""

FACTS_OF_HOURS: Final = f"""
    fact AS (
        SELECT * FROM (
            {_TASK_FACT}
            WHERE t.finished_at >= $1 AND t.finished_at < $2 AND t.state NOT IN ('queued', 'running')
              AND NOT EXISTS (SELECT FROM stat_due q WHERE q.task_id = t.id)
            UNION ALL
            {_REPORT_FACT}
            WHERE r.detected_at >= $1 AND r.detected_at < $2
              AND NOT EXISTS (SELECT FROM stat_due q WHERE q.report_id = r.id)
        ) f WHERE {_IS_KEPT.format(tenant="f.tenant", hour="f.hour")}
    )
"""
"""From $1 until $2, both whole hours: what is counted there, without hours of which something was removed."""

HOURS_KEPT: Final = f"""
    s.hour >= $1 AND s.hour < $2 AND {_IS_KEPT.format(tenant="s.tenant", hour="s.hour")}
"""
"""The rows of a table ``s`` of sums that `FACTS_OF_HOURS` is to be compared with."""

_MEASURED: Final = f"""
    count(*) AS tasks, count(*) FILTER (WHERE hits > 0) AS with_hits, sum(hits)::bigint AS hits,
    count(run_us) AS timed, coalesce(sum(wait_us), 0)::bigint AS wait_us, coalesce(sum(run_us), 0)::bigint AS run_us,
    histogram_of(array_agg({bucket_sql("wait_us")}) FILTER (WHERE wait_us IS NOT NULL)) AS waits,
    histogram_of(array_agg({bucket_sql("run_us")}) FILTER (WHERE run_us IS NOT NULL)) AS runs
"""

SUMS: Final = f"""
    of_hour AS (
        SELECT tenant, hour, lane, state, {_MEASURED} FROM fact GROUP BY tenant, hour, lane, state
    ), of_device AS (
        SELECT tenant, hour, mac, lane, state, {_MEASURED} FROM fact GROUP BY tenant, hour, mac, lane, state
    ), found AS (
        SELECT f.task_id::text AS source, f.tenant, f.hour, h.category, h.word, f.lane, count(*) AS hits
        FROM fact f JOIN hit h ON h.task_id = f.task_id AND NOT h.shadow
        WHERE f.state = 'succeeded' GROUP BY f.task_id, f.tenant, f.hour, h.category, h.word, f.lane
        UNION ALL
        SELECT f.report_id::text, f.tenant, f.hour, h.category, h.word, f.lane, sum(h.count)
        FROM fact f JOIN report r ON r.id = f.report_id
        CROSS JOIN jsonb_to_recordset(r.body -> 'hits') AS h (word text, category text, count integer)
        GROUP BY f.report_id, f.tenant, f.hour, h.category, h.word, f.lane
    ), of_word AS (
        SELECT tenant, hour, category, word, lane, count(*) AS tasks, sum(hits)::bigint AS hits
        FROM found GROUP BY tenant, hour, category, word, lane
        UNION ALL
        SELECT tenant, hour, category, '', lane, count(DISTINCT source), sum(hits)::bigint
        FROM found GROUP BY tenant, hour, category, lane
    )
"""
"""Of ``fact``: what belongs into each table of sums, with its columns in their order."""

_ADD_MEASURED: Final = """
    tasks = s.tasks + excluded.tasks, with_hits = s.with_hits + excluded.with_hits, hits = s.hits + excluded.hits,
    timed = s.timed + excluded.timed, wait_us = s.wait_us + excluded.wait_us, run_us = s.run_us + excluded.run_us,
    waits = histogram_add(s.waits, excluded.waits), runs = histogram_add(s.runs, excluded.runs)
"""
_MEASURES: Final = "tasks, with_hits, hits, timed, wait_us, run_us, waits, runs"

ADD: Final = f"""
    added_hour AS (
        INSERT INTO stat_hourly AS s (tenant, hour, lane, state, {_MEASURES}) SELECT * FROM of_hour
        ON CONFLICT (tenant, hour, lane, state) DO UPDATE SET {_ADD_MEASURED}
    ), added_device AS (
        INSERT INTO stat_device AS s (tenant, hour, mac, lane, state, {_MEASURES}) SELECT * FROM of_device
        ON CONFLICT (tenant, hour, mac, lane, state) DO UPDATE SET {_ADD_MEASURED}
    ), added_word AS (
        INSERT INTO stat_word AS s (tenant, hour, category, word, lane, tasks, hits) SELECT * FROM of_word
        ON CONFLICT (tenant, hour, category, word, lane)
        DO UPDATE SET tasks = s.tasks + excluded.tasks, hits = s.hits + excluded.hits
    )
"""

_COUNT: Final = "WITH due AS ({due}), " + ", ".join((FACTS_OF_DUE, SUMS, ADD)) + "SELECT count(*) FROM due"
_COUNT_OLDEST: Final = _COUNT.format(
    due="DELETE FROM stat_due WHERE id IN (SELECT id FROM stat_due ORDER BY id LIMIT $1) RETURNING task_id, report_id"
)
_COUNT_TASKS: Final = _COUNT.format(
    due="DELETE FROM stat_due WHERE task_id = ANY ($1::uuid[]) RETURNING task_id, report_id"
)


async def count_due(ledger: Ledger, *, limit: int) -> int | None:
    """Count the oldest ``limit`` of what is due; return how many there were, None while somebody else counts."""
    async with ledger.transaction() as connection:
        if not await connection.fetchval("SELECT pg_try_advisory_xact_lock($1)", _LOCK):
            return None
        return int(await connection.fetchval(_COUNT_OLDEST, limit))


async def count_tasks(connection: Connection, task_ids: Sequence[UUID]) -> None:
    """Count those of the given tasks that are due: to be called before tasks are removed, in the same transaction."""
    await hold_sums(connection)
    await connection.fetchval(_COUNT_TASKS, list(task_ids))


async def hold_sums(connection: Connection) -> None:
    """Let nobody else change the sums until the end of this transaction; wait for whoever does."""
    await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
