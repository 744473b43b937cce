"""What API tests act with: the application on real stores, callers of two tenants, and a runner played by hand."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import httpx
from PIL import Image as Pillow

from detectsched.api.app import create_app
from detectsched.api.context import ApiContext
from detectsched.attempt import Ending, Started
from detectsched.db.api_keys import Scope, create_key
from detectsched.db.connection import Ledger
from detectsched.db.results import end
from detectsched.db.starts import start
from detectsched.detection import Detection
from detectsched.queueing.connection import RedisClients
from detectsched.queueing.queue import Completion, Queue, WorkerRecord
from detectsched.settings import Settings
from detectsched.storage.blobs import BlobStore, open_blobs
from detectsched.task import TaskError, TaskState
from tests.support.actors import DEFAULT_TURNS

MAC = "AA:BB:CC:DD:EE:01"
PROBLEM = "application/problem+json"


def png(width: int = 64, height: int = 32, colour: str = "white") -> bytes:
    """Return an image file."""
    file = io.BytesIO()
    Pillow.new("RGB", (width, height), colour).save(file, "PNG")
    return file.getvalue()


def bearer(key: str) -> dict[str, str]:
    """Return the header that shows a key."""
    return {"Authorization": f"Bearer {key}"}


@dataclass
class Rig:
    """The API of one test."""

    settings: Settings
    clients: RedisClients
    queue: Queue
    ledger: Ledger
    blobs: BlobStore
    context: ApiContext
    keys: dict[str, str] = field(default_factory=dict)
    runner: str = "host:1:boot"

    async def open_gate(self) -> None:
        """Give Redis a new, empty life."""
        # A rig may be opened beside another: what is begun anew is the life that is there now.
        await self.queue.rebuild.is_needed(self.settings.lanes, check_policy=False)
        token = await self.queue.rebuild.begin()
        assert token is not None
        await self.queue.rebuild.wipe(token, self.settings.lanes)
        await self.queue.rebuild.open(token)
        await self.queue.join()

    def client(self, key: str | None = "acme", **options: Any) -> httpx.AsyncClient:
        """Return a client of the application, with the key of that name."""
        options.setdefault("headers", bearer(self.keys[key]) if key else {})
        return httpx.AsyncClient(
            transport=httpx.ASGITransport(create_app(self.context)), base_url="http://api", **options
        )

    async def pending(self) -> int:
        """Return how many tasks wait in Redis."""
        return (await self.queue.level(self.settings.lanes))["total_pending"]

    async def begin(self, lane: str = "text", *, room: int = 1) -> list[Started]:
        """Dispatch and start tasks, as a dispatcher and a runner would."""
        outstanding = (await self.queue.level(self.settings.lanes))[f"outstanding:{lane}"]
        await self.queue.scripts.dispatch(lane, capacity=outstanding + room, live=[self.runner], turns=DEFAULT_TURNS)
        deliveries = await self.queue.read(lane, self.runner, count=room, block_seconds=0.01)
        started = await start(self.ledger, deliveries, runner=self.runner) if deliveries else []
        return [one for one in started if isinstance(one, Started)]

    async def finish(
        self,
        started: Started,
        state: TaskState = TaskState.SUCCEEDED,
        *,
        detection: Detection | None = None,
        error: TaskError | None = None,
    ) -> None:
        """End a started task, as a runner would."""
        if state is TaskState.SUCCEEDED:
            detection = detection or Detection((), started.lists)
        task_id = started.delivery.task_id
        ending = Ending(
            task_id, started.tenant, started.fence, state, detection=detection, error=error, seal=started.seal
        )
        assert await end(self.ledger, [ending]) == [True]
        await self.queue.scripts.complete([Completion(task_id, started.delivery.number)])

    async def report_runner(self, label: str = "gpu-1", *, slots: str = "text=2", **fields: Any) -> None:
        """Have a runner report itself, as its heartbeat would; it is the one that this rig plays."""
        record = WorkerRecord(
            **{
                "hostname": "host",
                "pid": 1,
                "gpu_available": 0,
                "gpu_util": 0.0,
                "gpu_memory_util": 0.0,
                "cpu_count": 2,
                "cpu_percent": 10.0,
                "memory_total": 1000,
                "memory_available": 900,
                "memory_percent": 10.0,
                "active_tasks": 0,
                "last_heartbeat": "2026-11-30T00:00:00+00:00",
                "consumer": self.runner,
                "label": label,
                "slots": slots,
                **fields,
            }
        )
        await self.queue.registry.report(record, ttl_seconds=60, changed=True, lanes=self.settings.lanes)

    async def audited(self) -> list[tuple[str, str, dict[str, Any]]]:
        """Return the audit log, oldest first: action, subject, detail."""
        async with self.ledger.connection() as connection:
            rows = await connection.fetch("SELECT action, subject, detail FROM audit_log ORDER BY id")
        return [(row["action"], row["subject"], row["detail"]) for row in rows]

    async def rows(self) -> list[dict[str, Any]]:
        """Return all tasks that are committed, in the order of their acceptance."""
        async with self.ledger.connection() as connection:
            return [dict(row) for row in await connection.fetch("SELECT * FROM task ORDER BY sequence")]

    async def state_of(self, task_id: str) -> str:
        """Return where a task stands in PostgreSQL."""
        async with self.ledger.connection() as connection:
            return str(await connection.fetchval("SELECT state FROM task WHERE id = $1", UUID(task_id)))


@asynccontextmanager
async def rigged(settings: Settings) -> AsyncIterator[Rig]:
    """Open the stores, open the gate, make keys: ``acme``, ``other`` (admins), acme's of single scopes and of all."""
    clients = RedisClients(settings.redis, name="test")
    queue, ledger, blobs = (
        Queue(clients, settings),
        Ledger(settings.postgres, settings.encryption),
        open_blobs(settings.blobs),
    )
    rig = Rig(settings, clients, queue, ledger, blobs, ApiContext.make(queue, ledger, blobs, settings))
    try:
        await rig.open_gate()
        for tenant in ("acme", "other"):
            rig.keys[tenant] = await create_key(ledger, tenant=tenant, name="all", scopes=[Scope.ADMIN])
        for scope in Scope:
            rig.keys[scope.value] = await create_key(ledger, tenant="acme", name=scope.value, scopes=[scope])
        rig.keys["boss"] = await create_key(ledger, tenant="acme", name="boss", scopes=list(Scope))
        yield rig
    finally:
        await clients.close()
        await ledger.close()
        await blobs.close()


def problem(answer: httpx.Response, status: int, code: str, *, field: str | None = None) -> dict[str, Any]:
    """Check that an answer is this problem, and return it."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == PROBLEM
    document: dict[str, Any] = answer.json()
    assert document["code"] == code
    assert document["status"] == status
    assert document["type"] == f"urn:detectsched:problem:{code}"
    assert document["detail"]
    assert document["title"]
    if field is not None:
        assert field in [error["field"] for error in document["errors"]], document
    if status in {429, 503}:
        assert int(answer.headers["retry-after"]) == document["retry_after"] >= 1
    return document
