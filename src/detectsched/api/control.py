"""Carries decisions out: first the ledger, in one transaction with its audit entry, then the queues.

If Redis is away in between, the answer is 503 and the decision stands: it may be sent again, and the dispatcher's pause
keeper and the next tasks of a device bring Redis up to date in any case.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from detectsched.api.context import ApiContext
from detectsched.api.states import PauseState
from detectsched.db import control
from detectsched.db.api_keys import Principal
from detectsched.db.audit import Actor
from detectsched.db.models import Pause
from detectsched.errors import Conflict, NotFound
from detectsched.queueing.queue import concerned
from detectsched.task import QueueId
from detectsched.telemetry import current_request_id

_CHUNK: Final = 200
"""Queues told of a change in one script call: a few milliseconds."""

RUNNING: Final = PauseState(paused=False)


def actor_of(caller: Principal) -> Actor:
    """Return who decides, for the audit log."""
    return Actor(f"key {caller.key_id}", current_request_id())


def pause_state(row: Pause | None) -> PauseState:
    """Show whether something is paused."""
    return RUNNING if row is None else PauseState(paused=True, since=row.paused_at, reason=row.reason, by=row.paused_by)


async def pause(
    context: ApiContext, what: str, caller: Principal, *, reason: str, of_platform: bool = False
) -> PauseState:
    """Pause something; doing it again changes the reason."""
    tenant = None if of_platform else caller.tenant
    row = await control.pause(context.ledger, what, tenant=tenant, reason=reason, by=actor_of(caller))
    await _tell(context, what, paused=True)
    return pause_state(row)


async def resume(
    context: ApiContext,
    what: str,
    caller: Principal,
    *,
    exists: Callable[[], Awaitable[object]],
    of_platform: bool = False,
) -> PauseState:
    """Let something go on; ``exists`` raises `NotFound` if there is no such thing.

    Raises:
        NotFound: there is none.
        Conflict: it is not paused.
    """
    tenant = None if of_platform else caller.tenant
    resumed = await control.resume(context.ledger, what, tenant=tenant, by=actor_of(caller))
    if not resumed:
        await exists()
        # A resume of which Redis was not told, being away, is asked for again.
        if what not in await context.queue.paused():
            raise Conflict("it is not paused")
    await _tell(context, what, paused=False)
    return RUNNING


async def entitle_device(context: ApiContext, tenant: str, mac: str) -> None:
    """Tell a device's queues what they may have now."""
    entitled = await control.entitlement(context.ledger, tenant, mac)
    entitled = entitled.with_default_limit(context.settings.scheduler.device_in_flight)
    await context.queue.scripts.entitle(
        [(QueueId.of_device(tenant, lane, mac), lane, entitled) for lane in context.settings.lanes]
    )


async def entitle_tenant(context: ApiContext, tenant: str) -> None:
    """Tell the queues of a tenant in which something is open what they may have now."""
    default = context.settings.scheduler.device_in_flight
    after = None
    while found := await control.open_entitlements(context.ledger, tenant, after=after, limit=_CHUNK):
        await context.queue.scripts.entitle(
            [(queue, lane, own.with_default_limit(default)) for queue, lane, own in found]
        )
        after = str(found[-1][0]), found[-1][1]


def known_lane(context: ApiContext, lane: str) -> str:
    """Return a lane that a path names.

    Raises:
        NotFound: there is none.
    """
    if lane not in context.settings.lanes:
        raise NotFound(f"there is no lane {lane!r}; the lanes are: {', '.join(context.settings.lanes)}")
    return lane


async def _tell(context: ApiContext, what: str, *, paused: bool) -> None:
    lanes, queues = concerned(what, context.settings.lanes)
    await context.queue.scripts.pause(what, paused=paused, lanes=lanes, queues=queues)
