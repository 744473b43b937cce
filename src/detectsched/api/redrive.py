"""Drives dead letters again, or purges them, chunk by chunk.

A re-drive takes no more than there is room for, so that it never shuts out new work: what is driven again waits and
counts like everything else, also while it waits for its place in a slow re-drive.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from detectsched.api.context import ApiContext
from detectsched.api.states import PurgeOutcome, RedriveOutcome
from detectsched.db.accept import AcceptedTask
from detectsched.db.redrives import Plan, purge_chunk, redrive_chunk
from detectsched.errors import StoreUnavailable
from detectsched.queueing.queue import Placement
from detectsched.telemetry import get_logger

log = get_logger(__name__)

_CHUNK: Final = 200
_BLOBS_AT_ONCE: Final = 16


async def redrive(context: ApiContext, plan: Plan) -> RedriveOutcome:
    """Make new tasks of the dead letters of a plan, and queue them."""
    done = 0
    while done < plan.count:
        rows = await redrive_chunk(context.ledger, plan, done=done, limit=_CHUNK)
        if not rows:
            break
        await _enqueue(context, rows)
        done += len(rows)
    log.info("dead letters driven again", tenant=plan.tenant, matched=plan.matched, redriven=done)
    return RedriveOutcome(matched=plan.matched, redriven=done, left=plan.matched - done)


async def purge(context: ApiContext, plan: Plan) -> PurgeOutcome:
    """Remove the dead letters of a plan, rows first: a blob without a row costs space, a row without one a failure."""
    done = 0
    while done < plan.count:
        removed, blobs = await purge_chunk(context.ledger, plan, done=done, limit=_CHUNK)
        if not removed:
            break
        await _forget(context, blobs)
        done += removed
    log.info("dead letters purged", tenant=plan.tenant, matched=plan.matched, purged=done)
    return PurgeOutcome(matched=plan.matched, purged=done, left=plan.matched - done)


async def _enqueue(context: ApiContext, rows: Sequence[AcceptedTask]) -> None:
    default = context.settings.scheduler.device_in_flight
    placements = [Placement(row.task, row.entitlement.with_default_limit(default)) for row in rows]
    try:
        await context.queue.scripts.enqueue(placements)
    except StoreUnavailable as error:
        # They are committed: the reconciler queues them, or the rebuild does.
        log.warning("tasks driven again are queued later", tasks=len(rows), error=error.detail)


async def _forget(context: ApiContext, blobs: Sequence[str]) -> None:
    gate = asyncio.Semaphore(_BLOBS_AT_ONCE)

    async def one(key: str) -> None:
        async with gate:
            try:
                await context.blobs.delete(key)
            except StoreUnavailable as error:
                log.warning("the image of a purged task stays in the blob store", key=key, error=error.detail)

    await asyncio.gather(*(one(key) for key in blobs))
