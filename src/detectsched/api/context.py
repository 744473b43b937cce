"""What the routes need, put together once per process."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Request

from detectsched.api.auth import KeyCache
from detectsched.api.edge import Answer
from detectsched.api.encrypted import Opener
from detectsched.api.export import Exports
from detectsched.api.health import Readiness
from detectsched.api.image_urls import ImageUrls
from detectsched.api.intake import Intake
from detectsched.api.list_trial import Trials
from detectsched.api.metrics import Metrics
from detectsched.api.overload import Overload
from detectsched.api.submission import AcceptPath
from detectsched.api.waiters import CommandLook, EndListener, EndLook, Waiters, hear_commands
from detectsched.db.commands import Addressee
from detectsched.db.connection import Ledger
from detectsched.db.notifications import COMMAND_CHANNEL, Notifications
from detectsched.lifecycle import Service
from detectsched.net.guard import Guard
from detectsched.queueing.queue import Queue
from detectsched.settings import Settings
from detectsched.storage.blobs import BlobStore
from detectsched.webhooks.targets import guard_of


@dataclass(frozen=True, slots=True)
class ApiContext:
    """Made by `make`; the stores belong to whoever opened them."""

    settings: Settings
    queue: Queue
    ledger: Ledger
    blobs: BlobStore
    overload: Overload
    stopping: asyncio.Event
    metrics: Metrics
    keys: KeyCache
    opener: Opener
    intake: Intake
    accept_path: AcceptPath
    waiters: Waiters[UUID]
    command_waiters: Waiters[Addressee]
    guard: Guard
    readiness: Readiness
    answer: Answer
    exports: Exports
    trials: Trials

    @classmethod
    def make(cls, queue: Queue, ledger: Ledger, blobs: BlobStore, settings: Settings) -> ApiContext:
        """Put everything together; nothing is asked of the stores yet."""
        stopping = asyncio.Event()
        metrics = Metrics()
        intake = Intake(settings)
        overload = Overload(queue, settings.api, max_items=settings.api.group_commit_max)
        return cls(
            settings=settings,
            queue=queue,
            ledger=ledger,
            blobs=blobs,
            overload=overload,
            stopping=stopping,
            metrics=metrics,
            keys=KeyCache(ledger, seconds=settings.api.key_cache_seconds),
            opener=Opener(ledger, settings, metrics),
            intake=intake,
            accept_path=AcceptPath(queue, ledger, blobs, overload, settings, metrics, ImageUrls(settings.api, intake)),
            waiters=Waiters(stopping),
            command_waiters=Waiters(stopping),
            guard=guard_of(settings.webhooks),
            readiness=Readiness(queue, ledger, settings, stopping),
            exports=Exports(settings.reports),
            trials=Trials(ledger),
            answer=Answer(metrics, fallback_seconds=settings.api.retry_after_seconds),
        )

    def services(self) -> list[Service]:
        """Return the loops that serve the routes, in the order in which they start."""
        return [
            EndListener(self.queue, self.waiters),
            EndLook(self.ledger, self.waiters),
            Notifications(self.ledger, {COMMAND_CHANNEL: hear_commands(self.command_waiters)}),
            CommandLook(self.ledger, self.command_waiters),
        ]

    def begin_stop(self) -> None:
        """Say that no new work should come, and send home whoever waits."""
        self.stopping.set()
        self.waiters.wake_all()
        self.command_waiters.wake_all()


def _context(request: Request) -> ApiContext:
    context: ApiContext = request.app.state.context
    return context


async def context_of(request: Request) -> ApiContext:
    """Return the context of the application; asynchronous, so that no thread is used for it."""
    return _context(request)


Context = Annotated[ApiContext, Depends(context_of)]
