"""What runners write: engine results, and how a try ended. Every write names the fence of its start."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from detectsched.attempt import Ending, EngineRead
from detectsched.command import NewCommand, commands_for
from detectsched.db.codec import box_to_json, lines_to_json, lists_to_json
from detectsched.db.command_policies import policies_in_force
from detectsched.db.connection import Connection, Ledger
from detectsched.db.sealed import sealed_lines, sealed_match, sealed_reading
from detectsched.detection import Hit

# JSON travels as text[]: asyncpg would take a list inside jsonb[] for another dimension of the array.
_SAVE_READ: Final = """
INSERT INTO engine_record (task_id, tenant, state, engine, version, text, lines, width, height, seconds, finished_at)
SELECT g.id, g.tenant, 'success', g.engine, g.version, g.text, g.lines::jsonb, g.width, g.height, g.seconds, now()
FROM unnest($1::uuid[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::int[], $9::int[],
            $10::float8[]) AS g (id, tenant, fence, engine, version, text, lines, width, height, seconds)
JOIN task t ON t.id = g.id AND t.fence = g.fence AND t.state = 'running'
ON CONFLICT (task_id) DO UPDATE SET state = excluded.state, engine = excluded.engine, version = excluded.version,
    text = excluded.text, lines = excluded.lines, width = excluded.width, height = excluded.height,
    seconds = excluded.seconds, error = NULL, finished_at = now()
RETURNING task_id
"""

# One statement, so that an ending costs one round trip and is one transaction: what did not pass the fence is written
# nowhere. A task whose tenant was told that it is being cancelled does not wait again. Its records say how the start
# ended: a task that waits again has failed this time, or was interrupted where that cost no attempt.
_ENDED: Final = """
WITH ended AS (
    UPDATE task t SET
        state = CASE WHEN g.state = 'queued' AND t.cancel_requested THEN 'cancelled' ELSE g.state END,
        finished_at = CASE WHEN g.state = 'queued' AND NOT t.cancel_requested THEN NULL ELSE now() END,
        attempts = t.attempts + g.spent,
        runner = CASE WHEN g.state = 'queued' AND NOT t.cancel_requested THEN NULL ELSE t.runner END,
        error_reason = CASE WHEN g.state = 'queued' AND g.reason IS NULL THEN t.error_reason ELSE g.reason END,
        error_detail = CASE WHEN g.state = 'queued' AND g.reason IS NULL THEN t.error_detail ELSE g.detail END
    FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::int[], $5::text[], $6::text[])
        AS g (id, fence, state, spent, reason, detail)
    WHERE t.id = g.id AND t.fence = g.fence AND t.state = 'running'
    RETURNING t.id, t.tenant, t.fence, t.mac, t.object, t.runner, t.request_id, g.detail AS error,
        CASE t.state WHEN 'succeeded' THEN 'success' WHEN 'cancelled' THEN 'cancelled'
                     WHEN 'queued' THEN CASE g.spent WHEN 0 THEN 'interrupted' ELSE 'failed' END
                     ELSE 'failed' END AS record
), read AS (
    UPDATE engine_record r SET state = e.record, error = e.error, finished_at = now()
    FROM ended e WHERE r.task_id = e.id AND r.state = 'processing'
), judged AS (
    INSERT INTO detection (task_id, tenant, state, fence, hit_count, top_level, lists, hits_cut, shadow_count, error,
                           finished_at)
    SELECT e.id, e.tenant, e.record, e.fence, coalesce(g.hits, 0), coalesce(g.level, 0), coalesce(g.lists, '[]')::jsonb,
           coalesce(g.cut, false), coalesce(g.shadow, 0), e.error, now()
    FROM ended e
    LEFT JOIN unnest($7::uuid[], $8::int[], $9::int[], $10::text[], $11::bool[], $12::int[])
        AS g (id, hits, level, lists, cut, shadow) USING (id)
    ON CONFLICT (task_id) DO UPDATE SET state = excluded.state, fence = excluded.fence, hit_count = excluded.hit_count,
        top_level = excluded.top_level, lists = excluded.lists, hits_cut = excluded.hits_cut,
        shadow_count = excluded.shadow_count, error = excluded.error, finished_at = now()
)"""

# What follows from hits, commands (send_command of the original) and the entry in the audit log (write_log), is part of
# the same statement. Most endings have none, and are a quarter faster without these inserts of nothing.
_FOUND: Final = """, found AS (
    INSERT INTO hit (tenant, task_id, list_id, list_version, word, category, level, start_offset, end_offset, matched,
                     box, rule, tags, replacement, shadow)
    SELECT e.tenant, e.id, g.list, g.version, g.word, g.category, g.level, g.start, g.stop, g.matched, g.box::jsonb,
           g.rule, g.tags::jsonb, g.replacement, g.shadow
    FROM unnest($13::uuid[], $14::text[], $15::int[], $16::text[], $17::text[], $18::int[], $19::int[], $20::int[],
                $21::text[], $22::text[], $23::text[], $24::text[], $25::text[], $26::bool[]) WITH ORDINALITY
        AS g (id, list, version, word, category, level, start, stop, matched, box, rule, tags, replacement, shadow,
              place)
        JOIN ended e USING (id)
    ORDER BY g.place
), commanded AS (
    INSERT INTO command (id, tenant, task_id, mac, object, kind, policy, level, body)
    SELECT g.command, e.tenant, e.id, e.mac, e.object, g.kind, g.policy, g.level, g.body::jsonb
    FROM unnest($27::uuid[], $28::uuid[], $29::text[], $30::text[], $31::int[], $32::text[])
        AS g (id, command, kind, policy, level, body) JOIN ended e USING (id)
    RETURNING id, task_id, policy
), logged AS (
    INSERT INTO audit_log (tenant, actor, action, subject, outcome, request_id, detail)
    SELECT e.tenant, 'runner ' || coalesce(e.runner, '?'), 'hit', e.id::text, 'done', e.request_id, jsonb_build_object(
               'mac', e.mac, 'object', e.object, 'hit_count', g.hits, 'top_level', g.level, 'lists', g.lists::jsonb,
               'commands', (SELECT coalesce(jsonb_agg(c.id ORDER BY c.policy), '[]') FROM commanded c
                            WHERE c.task_id = e.id))
    FROM unnest($7::uuid[], $8::int[], $9::int[], $10::text[]) AS g (id, hits, level, lists) JOIN ended e USING (id)
    WHERE g.hits > 0
)"""

_EFFECTIVE: Final = "\nSELECT id FROM ended"
_END: Final = _ENDED + _EFFECTIVE
_END_WITH_HITS: Final = _ENDED + _FOUND + _EFFECTIVE


async def save_reads(ledger: Ledger, reads: Sequence[EngineRead]) -> list[bool]:
    """Keep engine results; False for one whose start is not the current one any more."""
    async with ledger.connection() as connection:
        rows = await connection.fetch(
            _SAVE_READ,
            [read.task_id for read in reads],
            [read.tenant for read in reads],
            [read.fence for read in reads],
            [read.result.engine for read in reads],
            [read.result.version for read in reads],
            [sealed_reading(read.seal, read.result.joined().content) for read in reads],
            [json.dumps(sealed_lines(read.seal, lines_to_json(read.result.lines))) for read in reads],
            [read.result.width for read in reads],
            [read.result.height for read in reads],
            [read.result.seconds for read in reads],
        )
    saved = {UUID(str(row["task_id"])) for row in rows}
    return [read.task_id in saved for read in reads]


async def end(ledger: Ledger, endings: Sequence[Ending]) -> list[bool]:
    """Write how starts ended, in one transaction: detection and hits, the commands that follow and the audit log.

    False for one that was fenced off: another start, or another end, came first; nothing of it was written. One that
    shall wait again although its cancellation was asked for is cancelled.
    """
    hits = [
        (ending, hit, is_shadow)
        for ending in endings
        if ending.detection is not None
        for found, is_shadow in ((ending.detection.hits, False), (ending.detection.shadow, True))
        for hit in found
    ]
    async with ledger.connection() as connection:
        if hits:
            commands = await _commands(connection, endings)
            more = [*_hit_columns(hits), *_command_columns(commands)]
            rows = await connection.fetch(_END_WITH_HITS, *_ending_columns(endings), *more)
        else:
            rows = await connection.fetch(_END, *_ending_columns(endings))
    effective = {UUID(str(row["id"])) for row in rows}
    return [ending.task_id in effective for ending in endings]


async def was_written(ledger: Ledger, ending: Ending) -> bool:
    """Whether an ending was written, when its answer was lost and a second try was fenced off: perhaps by the first."""
    async with ledger.connection() as connection:
        state = await connection.fetchval(
            "SELECT state FROM task WHERE id = $1 AND fence = $2", ending.task_id, ending.fence
        )
    return bool(state == ending.state.value)


async def _commands(connection: Connection, endings: Sequence[Ending]) -> list[NewCommand]:
    """Return what follows the hits of endings by the policies of this moment."""
    hit = [(ending, ending.detection) for ending in endings if ending.detection is not None and ending.detection.hits]
    if not hit:
        return []
    policies = await policies_in_force(connection, [ending.tenant for ending, _ in hit])
    return [
        command
        for ending, detection in hit
        for command in commands_for(ending.task_id, detection, policies.get(ending.tenant, ()))
    ]


def _storable(text: str) -> str:
    """Return a text that PostgreSQL takes: an exception may quote any bytes, and must not make its task unwritable."""
    return text.encode(errors="backslashreplace").decode().replace("\x00", "\\x00")


def _ending_columns(endings: Sequence[Ending]) -> list[list[Any]]:
    judged = [(ending.task_id, ending.detection) for ending in endings if ending.detection is not None]
    return [
        [ending.task_id for ending in endings],
        [ending.fence for ending in endings],
        [ending.state.value for ending in endings],
        [int(ending.spends_attempt) for ending in endings],
        [_storable(ending.error.reason) if ending.error else None for ending in endings],
        [_storable(ending.error.detail[:2000]) if ending.error else None for ending in endings],
        [task_id for task_id, _ in judged],
        [len(detection.hits) for _, detection in judged],
        [max((hit.level for hit in detection.hits), default=0) for _, detection in judged],
        [json.dumps(lists_to_json(detection.lists)) for _, detection in judged],
        [detection.cut for _, detection in judged],
        [len(detection.shadow) for _, detection in judged],
    ]


def _hit_columns(hits: Sequence[tuple[Ending, Hit, bool]]) -> list[list[Any]]:
    return [
        [ending.task_id for ending, _, _ in hits],
        [hit.list.list_id for _, hit, _ in hits],
        [hit.list.version for _, hit, _ in hits],
        [hit.word for _, hit, _ in hits],
        [hit.category for _, hit, _ in hits],
        [hit.level for _, hit, _ in hits],
        [hit.start for _, hit, _ in hits],
        [hit.end for _, hit, _ in hits],
        [sealed_match(ending.seal, hit.matched, hit.start, hit.end) for ending, hit, _ in hits],
        [None if hit.box is None else json.dumps(box_to_json(hit.box)) for _, hit, _ in hits],
        [hit.rule for _, hit, _ in hits],
        [json.dumps(hit.tags) for _, hit, _ in hits],
        [hit.replacement for _, hit, _ in hits],
        [is_shadow for _, _, is_shadow in hits],
    ]


def _command_columns(commands: Sequence[NewCommand]) -> list[list[Any]]:
    return [
        [command.task_id for command in commands],
        [command.id for command in commands],
        [command.kind.value for command in commands],
        [command.policy for command in commands],
        [command.level for command in commands],
        [json.dumps(command.body) for command in commands],
    ]
