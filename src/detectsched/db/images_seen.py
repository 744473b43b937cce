"""What is known of an image by its content: how it was read before, and whether it has crashed engines.

Content is named by its SHA-256 and only looked for among the same tenant's: that an image is known must tell nobody
that somebody else has sent it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from detectsched.db.codec import engine_result_from_json
from detectsched.db.connection import Ledger
from detectsched.detection import EngineResult

MARK_DAYS: Final = 30
"""A crash is forgotten after this time."""
MOST_MARKS: Final = 1000
"""Images of one tenant that are remembered for their crashes, the latest ones."""
_NEWEST: Final = 3
"""Tasks that are looked at for a reading; the newest may have been read by another version."""

# A dead letter that was driven again is to be tried once more, whatever its image did before that.
_RECALL: Final = """
SELECT
    (SELECT c.crashes FROM engine_crash c JOIN task t ON t.id = $1
     WHERE c.tenant = $2 AND c.sha256 = $3 AND c.engine = $4 AND c.version = $5
       AND c.last_at > now() - $8 * interval '1 day'
       AND (t.redrive_of IS NULL OR c.last_at > t.created_at)) AS crashes,
    (SELECT jsonb_build_object('engine', e.engine, 'version', e.version, 'lines', e.lines, 'width', e.width,
                               'height', e.height, 'seconds', e.seconds)
     FROM (SELECT id FROM task
           WHERE tenant = $2 AND blob_sha256 = $3 AND state = 'succeeded' ORDER BY id DESC LIMIT $7) t
     JOIN engine_record e ON e.task_id = t.id
     WHERE e.tenant = $2 AND e.state = 'success' AND e.engine = $4 AND e.version = $5
       AND e.created_at > now() - $6 * interval '1 second'
     ORDER BY t.id DESC LIMIT 1) AS read
"""

_NOTE: Final = """
INSERT INTO engine_crash AS c (tenant, sha256, engine, version, crashes, reason, last_task)
VALUES ($1, $2, $3, $4, 1, $5, $6)
ON CONFLICT (tenant, sha256, engine) DO UPDATE SET
    crashes = CASE WHEN c.version = excluded.version AND c.last_at > now() - $7 * interval '1 day'
                   THEN c.crashes + 1 ELSE 1 END,
    version = excluded.version, reason = excluded.reason, last_task = excluded.last_task, last_at = now()
RETURNING crashes
"""

_FORGET: Final = """
DELETE FROM engine_crash WHERE tenant = $1 AND (last_at < now() - $2 * interval '1 day' OR sha256 IN (
    SELECT sha256 FROM engine_crash WHERE tenant = $1 ORDER BY last_at DESC OFFSET $3))
"""


@dataclass(frozen=True, slots=True)
class Seen:
    """``crashes`` of this engine's version on this image; ``read``: what that version read in it, lately."""

    crashes: int
    read: EngineResult | None


async def recall(
    ledger: Ledger, task_id: UUID, tenant: str, sha256: bytes, *, engine: str, version: str, reuse_seconds: float
) -> Seen:
    """Return what is known of an image to an engine of this version.

    Args:
        ledger: where to look.
        task_id: the task that wants to know; one that was driven again is not told of crashes before that.
        tenant: whose image it is.
        sha256: its content.
        engine: the engine's name.
        version: its version.
        reuse_seconds: how old a reading may be, counted from when it was last made or used; 0: none is wanted.
    """
    async with ledger.connection() as connection:
        row = await connection.fetchrow(
            _RECALL, task_id, tenant, sha256, engine, version, float(reuse_seconds), _NEWEST, float(MARK_DAYS)
        )
    return Seen(row["crashes"] or 0, engine_result_from_json(row["read"]) if row["read"] else None)


async def note_crash(
    ledger: Ledger, task_id: UUID, tenant: str, sha256: bytes, *, engine: str, version: str, reason: str
) -> int:
    """Remember that an image has crashed an engine; return how often it has, this version of it."""
    async with ledger.connection() as connection:
        crashes = await connection.fetchval(_NOTE, tenant, sha256, engine, version, reason, task_id, float(MARK_DAYS))
        await connection.execute(_FORGET, tenant, float(MARK_DAYS), MOST_MARKS)
    return int(crashes)
