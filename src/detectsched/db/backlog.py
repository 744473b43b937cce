"""How much of each lane waits and runs, by the ledger: what autoscaling goes by."""

from __future__ import annotations

from typing import Final

from detectsched.db.connection import Ledger
from detectsched.task import LaneBacklog

# A task that may not start yet is no work for anybody; one that waits its time has waited since it might have started.
_BACKLOG: Final = """
SELECT lane,
    count(*) FILTER (WHERE state = 'queued') AS waiting,
    coalesce(sum(cost) FILTER (WHERE state = 'queued'), 0) AS waiting_cost,
    count(*) FILTER (WHERE state = 'running') AS running,
    coalesce(sum(cost) FILTER (WHERE state = 'running'), 0) AS running_cost,
    extract(epoch FROM now() - min(greatest(created_at, not_before)) FILTER (WHERE state = 'queued'))::float8 AS oldest
FROM task
WHERE state IN ('queued', 'running') AND (not_before IS NULL OR not_before <= now())
GROUP BY lane
"""


async def backlog_of_lanes(ledger: Ledger) -> dict[str, LaneBacklog]:
    """Return the backlog of every lane of which something is open."""
    async with ledger.connection() as connection:
        rows = await connection.fetch(_BACKLOG)
    return {
        row["lane"]: LaneBacklog(
            waiting=row["waiting"],
            waiting_cost=row["waiting_cost"],
            running=row["running"],
            running_cost=row["running_cost"],
            oldest_wait_seconds=max(0.0, row["oldest"] or 0.0),
        )
        for row in rows
    }
