"""What queue and ledger tests act with: real tasks, a queue with a clock of its own, an open gate."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from uuid import UUID

from detectsched.db.accept import NewTask
from detectsched.queueing.connection import RedisClients
from detectsched.queueing.queue import Completion, Placement, Queue, Turns
from detectsched.settings import Settings
from detectsched.task import DEFAULT_TENANT, Entitlement, QueuedTask, QueueId, TaskKind, new_task_id

_SEQUENCES = count(1)

DEFAULT_TURNS = Turns(batch=10, min_batch=1, starvation_seconds=30.0, order="fifo")


@dataclass
class FakeTime:
    """A clock that moves only when told; milliseconds since the epoch."""

    ms: int = 1_700_000_000_000

    def __call__(self) -> int:
        """Return the time."""
        return self.ms

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.ms += round(seconds * 1000)


def mac_number(number: int) -> str:
    """Return the MAC address of a test device."""
    digits = f"{0x020000000000 + number:012x}"
    return ":".join(digits[i : i + 2] for i in range(0, 12, 2))


def device_task(
    device: int,
    time: FakeTime,
    *,
    lane: str = "text",
    tenant: str = DEFAULT_TENANT,
    cost: float = 1.0,
    ttl: float = 3600,
) -> QueuedTask:
    """Return a task of a device, as the ledger would have accepted it now."""
    mac = mac_number(device)
    return QueuedTask(
        id=new_task_id(),
        queue=QueueId.of_device(tenant, lane, mac),
        lane=lane,
        sequence=next(_SEQUENCES),
        cost=cost,
        created_ms=time.ms,
        expires_ms=time.ms + round(ttl * 1000),
        mac=mac,
    )


def object_task(name: str, time: FakeTime, *, lane: str = "text", tenant: str = DEFAULT_TENANT) -> QueuedTask:
    """Return a task of an object."""
    return QueuedTask(
        id=new_task_id(),
        queue=QueueId.of_object(tenant, name),
        lane=lane,
        sequence=next(_SEQUENCES),
        cost=1.0,
        created_ms=time.ms,
        expires_ms=time.ms + 3_600_000,
    )


def new_text(device: int, text: str = "a text", *, key: str | None = None, tenant: str = DEFAULT_TENANT) -> NewTask:
    """Return a text of a device, to be accepted."""
    mac = mac_number(device)
    return NewTask(
        id=new_task_id(),
        tenant=tenant,
        kind=TaskKind.TEXT,
        lane="text",
        queue=QueueId.of_device(tenant, "text", mac),
        cost=1.0,
        ttl_seconds=3600,
        mac=mac,
        text=text,
        idempotency_key=key,
        request_hash=text.encode() if key else None,
    )


@dataclass
class Bench:
    """An opened queue on an empty Redis, a clock, and one consumer that is alive."""

    queue: Queue
    clients: RedisClients
    time: FakeTime
    consumer: str = "host:1:boot"
    owners: dict[UUID, int] = field(default_factory=dict)

    @classmethod
    async def opened(cls, settings: Settings) -> Bench:
        """Open the gate on whatever Redis the settings name."""
        clients = RedisClients(settings.redis, name="test")
        time = FakeTime()
        bench = cls(Queue(clients, settings, now_ms=time), clients, time)
        token = await bench.queue.rebuild.begin()
        assert token is not None
        await bench.queue.rebuild.wipe(token, settings.lanes)
        await bench.queue.rebuild.open(token)
        await bench.queue.join()
        return bench

    async def enqueue(
        self, *tasks: QueuedTask, weight: float = 1.0, tenant_weight: float = 1.0, limit: int = 0
    ) -> None:
        """Queue tasks with these entitlements."""
        entitlement = Entitlement(limit=limit, weight=weight, tenant_weight=tenant_weight)
        await self.queue.scripts.enqueue([Placement(task, entitlement) for task in tasks])

    async def serve(self, room: int, *, lane: str = "text", turns: Turns = DEFAULT_TURNS) -> list[UUID]:
        """Dispatch with this many free slots and fetch what was sent, in order; the tasks stay with the consumer."""
        held = len(self.owners)
        await self.queue.scripts.dispatch(lane, capacity=held + room, live=[self.consumer], turns=turns)
        deliveries = await self.queue.read(lane, self.consumer, count=10_000, block_seconds=0.01)
        self.owners |= {delivery.task_id: delivery.number for delivery in deliveries}
        return [delivery.task_id for delivery in deliveries]

    async def complete(self, *task_ids: UUID) -> list[str]:
        """Complete tasks that `serve` returned."""
        done = [Completion(task_id, self.owners.pop(task_id)) for task_id in task_ids]
        words = await self.queue.scripts.complete(done)
        return [word.value for word in words]
