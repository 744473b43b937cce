"""The accept path: from a submission to a 202, one step after the other.

202 means committed in PostgreSQL **and** queued in Redis. What concurrent requests write goes down together (group
commit), so each step takes many attempts; a step that fails for one attempt ends that one alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias
from uuid import UUID

from detectsched import failpoints
from detectsched.api.image_urls import ImageUrls
from detectsched.api.intake import Submission
from detectsched.api.metrics import Metrics
from detectsched.api.overload import Overload
from detectsched.clock import utc_now
from detectsched.db.accept import AcceptedTask, NewTask, accept, accepted_before
from detectsched.db.connection import Ledger
from detectsched.db.group_commit import GroupCommit
from detectsched.db.word_lists import missing_lists
from detectsched.errors import IdempotencyMismatch, InvalidRequest, StoreUnavailable
from detectsched.queueing.queue import Enqueued, Placement, Queue, subject_of
from detectsched.sealing import Seal
from detectsched.settings import Settings
from detectsched.storage.blobs import BlobStore
from detectsched.storage.keys import blob_key
from detectsched.task import TaskState, new_task_id
from detectsched.telemetry import current_request_id, get_logger

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a sender gets: the task is committed, and queued if it waits; ``replayed`` if it was so before."""

    task_id: UUID
    state: TaskState
    lane: str
    created_at: datetime
    expires_at: datetime
    not_before: datetime | None
    replayed: bool


@dataclass(slots=True)
class _Attempt:
    submission: Submission
    task_id: UUID = field(default_factory=new_task_id)
    digest: bytes | None = None
    blob: str | None = None
    seal: Seal | None = None
    accepted: AcceptedTask | None = None
    error: Exception | None = None


_Step: TypeAlias = Callable[[_Attempt], Awaitable[None]]
_Lists: TypeAlias = tuple[str, tuple[str, ...]]


class AcceptPath:
    """Accepts submissions of all tenants."""

    def __init__(
        self,
        queue: Queue,
        ledger: Ledger,
        blobs: BlobStore,
        overload: Overload,
        settings: Settings,
        metrics: Metrics,
        image_urls: ImageUrls,
    ) -> None:
        self._queue = queue
        self._ledger = ledger
        self._blobs = blobs
        self._overload = overload
        self._metrics = metrics
        self._image_urls = image_urls
        self._ttl_seconds = settings.scheduler.task_ttl_seconds
        self._device_in_flight = settings.scheduler.device_in_flight
        most = settings.api.group_commit_max
        self._keys: GroupCommit[tuple[str, str], AcceptedTask | None] = GroupCommit(self._find_keys, max_items=most)
        self._lists: GroupCommit[_Lists, list[str]] = GroupCommit(self._find_missing, max_items=most)
        self._rows: GroupCommit[NewTask, AcceptedTask] = GroupCommit(self._insert, max_items=most)
        self._places: GroupCommit[Placement, Enqueued] = GroupCommit(self._place, max_items=most)

    async def submit(self, submission: Submission) -> Receipt:
        """Accept one submission.

        Raises:
            InvalidRequest: it names a word list that the tenant does not have.
            Overloaded: too much waits already.
            IdempotencyMismatch: its key belongs to another request.
            StoreUnavailable: it may or may not be committed; the same key yields the same task.
        """
        [outcome] = await self.submit_all([submission])
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def submit_all(self, submissions: Sequence[Submission]) -> list[Receipt | Exception]:
        """Accept submissions in the order given; for each, its receipt or what was wrong with it."""
        attempts = [_Attempt(submission) for submission in submissions]
        await _each(attempts, self._recognise)
        await _each(_unknown(attempts), self._check_lists)
        await _each(_unknown(attempts), self._check_overload)
        await _each(_unknown(attempts), self._fetch_image)
        await _each(_unknown(attempts), self._seal)
        await _each(_unknown(attempts), self._keep_payload)
        await _each(_unknown(attempts), self._commit)
        await _each(_waiting(attempts), self._enqueue)
        failpoints.hit("accept.before_response")
        return [_outcome(attempt) for attempt in attempts]

    async def drain(self) -> None:
        """Wait until what was begun has been written, also for callers that are gone."""
        for writer in (self._rows, self._places):
            await writer.drain()

    # The steps --------------------------------------------------------------------------------------------------------

    async def _recognise(self, attempt: _Attempt) -> None:
        """Find the task of a repeated request; it comes first, so that nothing refuses what was accepted before."""
        wanted = attempt.submission
        if wanted.idempotency_key is None:
            return
        attempt.digest = wanted.digest()
        attempt.accepted = await self._keys.submit((wanted.tenant, wanted.idempotency_key))
        await self._check_same_request(attempt)

    async def _check_lists(self, attempt: _Attempt) -> None:
        wanted = attempt.submission
        if wanted.word_lists is None:
            return
        missing = await self._lists.submit((wanted.tenant, wanted.word_lists))
        if missing:
            raise InvalidRequest(
                f"there is no word list {missing[0]!r}; leave word_lists out to use the default lists",
                field="word_lists",
            )

    async def _check_overload(self, attempt: _Attempt) -> None:
        wanted = attempt.submission
        whose = f"object {wanted.object!r}" if wanted.mac is None else f"device {wanted.mac}"
        await self._overload.check(subject_of(wanted.queue), whose)

    async def _fetch_image(self, attempt: _Attempt) -> None:
        """Fetch an image that was given by its URL: after everything that refuses it for less."""
        attempt.submission = await self._image_urls.fetched(attempt.submission)

    async def _seal(self, attempt: _Attempt) -> None:
        """Decide, once for payload and row, whether the task is encrypted at rest."""
        key = await self._ledger.data_keys.current(attempt.submission.tenant)
        attempt.seal = None if key is None else Seal(key, attempt.task_id)

    async def _keep_payload(self, attempt: _Attempt) -> None:
        """Keep a payload before its row is there: a runner must find it."""
        wanted = attempt.submission
        if wanted.payload is not None:
            attempt.blob = blob_key(wanted.tenant, attempt.task_id, utc_now())
            data = wanted.payload.data
            if attempt.seal is not None:
                data = await asyncio.to_thread(attempt.seal.blob, attempt.blob, data)
            await self._blobs.put(attempt.blob, data)

    async def _commit(self, attempt: _Attempt) -> None:
        attempt.accepted = await self._rows.submit(_row_of(attempt, self._ttl_seconds))
        if not attempt.accepted.is_new:
            # Another request with this key was faster: its payload is the one that is read.
            await self._forget_payload(attempt)
            await self._check_same_request(attempt)

    async def _enqueue(self, attempt: _Attempt) -> None:
        """Queue the task. One that is committed and cannot be queued now is left to a retry or to the reconciler."""
        row = attempt.accepted
        assert row is not None, "only accepted tasks come here"  # noqa: S101 - a bug, not an input
        entitlement = row.entitlement.with_default_limit(self._device_in_flight)
        await self._places.submit(Placement(row.task, entitlement))

    async def _check_same_request(self, attempt: _Attempt) -> None:
        earlier, digest = attempt.accepted, attempt.digest
        if earlier is None or digest is None:
            return
        if earlier.data_key is not None:
            keys = await self._ledger.data_keys.load([(attempt.submission.tenant, earlier.data_key)])
            digest = keys.key(attempt.submission.tenant, earlier.data_key).digest(digest)
        if earlier.request_hash != digest:
            raise IdempotencyMismatch(
                "this Idempotency-Key came with another request before: use a new key for a new request, or send the "
                "same request again"
            )

    # What is written and read together --------------------------------------------------------------------------------

    async def _find_keys(self, keys: Sequence[tuple[str, str]]) -> list[AcceptedTask | None]:
        return await accepted_before(self._ledger, keys)

    async def _find_missing(self, wanted: Sequence[_Lists]) -> list[list[str]]:
        missing: dict[str, set[str]] = {}
        for tenant in {tenant for tenant, _ in wanted}:
            named = {list_id for whose, lists in wanted if whose == tenant for list_id in lists}
            missing[tenant] = set(await missing_lists(self._ledger, tenant, sorted(named)))
        return [[list_id for list_id in lists if list_id in missing[tenant]] for tenant, lists in wanted]

    async def _insert(self, rows: Sequence[NewTask]) -> list[AcceptedTask]:
        self._metrics.count_group(len(rows))
        failpoints.hit("accept.before_commit")
        accepted = await accept(self._ledger, rows)
        failpoints.hit("accept.after_commit")
        return accepted

    async def _place(self, placements: Sequence[Placement]) -> list[Enqueued]:
        placed = await self._queue.scripts.enqueue(placements)
        failpoints.hit("accept.after_enqueue")
        return placed

    async def _forget_payload(self, attempt: _Attempt) -> None:
        if attempt.blob is None:
            return
        try:
            await self._blobs.delete(attempt.blob)
        except StoreUnavailable as error:
            log.warning("an unused payload stays in the blob store", key=attempt.blob, error=error.detail)


def _unknown(attempts: Sequence[_Attempt]) -> list[_Attempt]:
    return [attempt for attempt in attempts if attempt.accepted is None]


def _waiting(attempts: Sequence[_Attempt]) -> list[_Attempt]:
    """Return what belongs into the queues: new tasks, and known ones that perhaps never got there."""
    return [
        attempt for attempt in attempts if attempt.accepted is not None and attempt.accepted.state is TaskState.QUEUED
    ]


async def _each(attempts: Sequence[_Attempt], step: _Step) -> None:
    """Do one step for all attempts that nothing has ended; their writes are submitted in order."""

    async def one(attempt: _Attempt) -> None:
        try:
            await step(attempt)
        except Exception as error:  # noqa: BLE001 - it is this attempt's outcome; others go on
            attempt.error = error

    going = [attempt for attempt in attempts if attempt.error is None]
    if len(going) == 1:
        await one(going[0])
    else:
        await asyncio.gather(*(one(attempt) for attempt in going))


def _row_of(attempt: _Attempt, default_ttl_seconds: int) -> NewTask:
    wanted, payload, seal, digest = attempt.submission, attempt.submission.payload, attempt.seal, attempt.digest
    if seal is not None and digest is not None:
        # Whoever reads the table could else try which text has this hash.
        digest = seal.key.digest(digest)
    return NewTask(
        id=attempt.task_id,
        tenant=wanted.tenant,
        kind=wanted.kind,
        lane=wanted.lane,
        queue=wanted.queue,
        cost=wanted.cost,
        ttl_seconds=wanted.ttl_seconds or default_ttl_seconds,
        mac=wanted.mac,
        object=wanted.object,
        object_name=wanted.object_name,
        engine=wanted.engine,
        word_lists=wanted.word_lists,
        idempotency_key=wanted.idempotency_key,
        request_hash=digest,
        text=wanted.text,
        blob=attempt.blob,
        # What is sealed cannot be changed unnoticed, and its hash would tell what it is.
        blob_sha256=payload.sha256 if payload and seal is None else None,
        media_type=payload.media_type if payload else None,
        file_name=payload.file_name if payload else None,
        not_before=wanted.not_before,
        callback_url=wanted.callback_url,
        request_id=current_request_id(),
        seal=seal,
    )


def _outcome(attempt: _Attempt) -> Receipt | Exception:
    row = attempt.accepted
    if attempt.error is not None or row is None:
        return attempt.error or AssertionError("an attempt without an outcome")
    return Receipt(
        row.task.id, row.state, row.task.lane, row.created_at, row.expires_at, row.not_before, replayed=not row.is_new
    )
