"""What runners write: engine results, and how a try ended. Every write names the fence of its start."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from detectsched.attempt import Ending, EngineRead
from detectsched.db.codec import box_to_json, lines_to_json, lists_to_json
from detectsched.db.connection import Connection, Ledger
from detectsched.detection import Detection

# JSON travels as text[]: asyncpg would take a list inside jsonb[] for another dimension of the array.
_SAVE_READ: Final = """
INSERT INTO engine_record (task_id, tenant, state, engine, version, text, lines, width, height, seconds)
SELECT g.id, g.tenant, 'success', g.engine, g.version, g.text, g.lines::jsonb, g.width, g.height, g.seconds
FROM unnest($1::uuid[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::int[], $9::int[],
            $10::float8[]) AS g (id, tenant, fence, engine, version, text, lines, width, height, seconds)
JOIN task t ON t.id = g.id AND t.fence = g.fence AND t.state = 'running'
ON CONFLICT (task_id) DO UPDATE SET state = excluded.state, engine = excluded.engine, version = excluded.version,
    text = excluded.text, lines = excluded.lines, width = excluded.width, height = excluded.height,
    seconds = excluded.seconds, error = NULL, created_at = now()
RETURNING task_id
"""

_END: Final = """
UPDATE task t SET
    state = g.state,
    finished_at = CASE WHEN g.state = 'queued' THEN NULL ELSE now() END,
    attempts = t.attempts + g.spent,
    runner = CASE WHEN g.state = 'queued' THEN NULL ELSE t.runner END,
    error_reason = CASE WHEN g.state = 'queued' AND g.reason IS NULL THEN t.error_reason ELSE g.reason END,
    error_detail = CASE WHEN g.state = 'queued' AND g.reason IS NULL THEN t.error_detail ELSE g.detail END
FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::int[], $5::text[], $6::text[])
    AS g (id, fence, state, spent, reason, detail)
WHERE t.id = g.id AND t.fence = g.fence AND t.state = 'running'
RETURNING t.id
"""

_DETECTIONS: Final = """
INSERT INTO detection (task_id, tenant, state, fence, hit_count, top_level, lists)
SELECT g.id, g.tenant, 'success', g.fence, g.hits, g.level, g.lists::jsonb
FROM unnest($1::uuid[], $2::text[], $3::bigint[], $4::int[], $5::int[], $6::text[])
    AS g (id, tenant, fence, hits, level, lists)
"""

_HITS: Final = """
INSERT INTO hit (tenant, task_id, list_id, list_version, word, category, level, start_offset, end_offset, matched, box)
SELECT g.tenant, g.id, g.list, g.version, g.word, g.category, g.level, g.start, g.stop, g.matched, g.box::jsonb
FROM unnest($1::text[], $2::uuid[], $3::text[], $4::int[], $5::text[], $6::text[], $7::int[], $8::int[],
            $9::int[], $10::text[], $11::text[])
    AS g (tenant, id, list, version, word, category, level, start, stop, matched, box)
"""


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
            [read.result.joined().content for read in reads],
            [json.dumps(lines_to_json(read.result.lines)) for read in reads],
            [read.result.width for read in reads],
            [read.result.height for read in reads],
            [read.result.seconds for read in reads],
        )
    saved = {UUID(str(row["task_id"])) for row in rows}
    return [read.task_id in saved for read in reads]


async def end(ledger: Ledger, endings: Sequence[Ending]) -> list[bool]:
    """Write how starts ended, detection and hits included, in one transaction.

    False for one that was fenced off: another start, or another end, came first; nothing of it was written.
    """
    async with ledger.transaction() as connection:
        rows = await connection.fetch(
            _END,
            [ending.task_id for ending in endings],
            [ending.fence for ending in endings],
            [ending.state.value for ending in endings],
            [int(ending.spends_attempt) for ending in endings],
            [ending.error.reason if ending.error else None for ending in endings],
            [ending.error.detail[:2000] if ending.error else None for ending in endings],
        )
        effective = {UUID(str(row["id"])) for row in rows}
        judged = [
            (ending, ending.detection)
            for ending in endings
            if ending.task_id in effective and ending.detection is not None
        ]
        if judged:
            await _store(connection, judged)
    return [ending.task_id in effective for ending in endings]


async def _store(connection: Connection, judged: Sequence[tuple[Ending, Detection]]) -> None:
    await connection.execute(
        _DETECTIONS,
        [ending.task_id for ending, _ in judged],
        [ending.tenant for ending, _ in judged],
        [ending.fence for ending, _ in judged],
        [len(detection.hits) for _, detection in judged],
        [max((hit.level for hit in detection.hits), default=0) for _, detection in judged],
        [json.dumps(lists_to_json(detection.lists)) for _, detection in judged],
    )
    hits: list[tuple[Any, ...]] = [
        (
            ending.tenant,
            ending.task_id,
            hit.list.list_id,
            hit.list.version,
            hit.word,
            hit.category,
            hit.level,
            hit.start,
            hit.end,
            hit.matched,
            None if hit.box is None else json.dumps(box_to_json(hit.box)),
        )
        for ending, detection in judged
        for hit in detection.hits
    ]
    if hits:
        await connection.execute(_HITS, *map(list, zip(*hits, strict=True)))
