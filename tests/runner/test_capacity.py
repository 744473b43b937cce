"""How much work a lane can take, from what its runners say; records that say nonsense are left out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from detectsched.queueing.connection import RedisClients
from detectsched.queueing.queue import Capacity, Queue, WorkerRecord, capacity_of
from detectsched.settings import NoRunner, SchedulerSettings, Settings

LANE = "ocr"
GPU_FIRST = SchedulerSettings(gpu_lanes=(LANE,))
FALLBACK = SchedulerSettings(gpu_lanes=(LANE,), no_runner=NoRunner.CPU_FALLBACK)
PLAIN = SchedulerSettings()


def runner(name: str, state: str = "healthy", *, gpu: int = 0, slots: str = "ocr=2,text=32") -> WorkerRecord:
    """Return a runner's record."""
    return WorkerRecord(
        hostname=name,
        pid=1,
        gpu_available=gpu,
        gpu_util=None,
        gpu_memory_util=None,
        cpu_count=2,
        cpu_percent=1.5,
        memory_total=1000,
        memory_available=500,
        memory_percent=50.0,
        active_tasks=0,
        last_heartbeat="2026-01-01T00:00:00+00:00",
        consumer=f"{name}:1:boot",
        slots=slots,
        state=state,
    )


def capacity(slots: int, *names: str, there: bool = True, cpu: bool = True) -> Capacity:
    """Return the capacity of these runners."""
    return Capacity(slots, tuple(f"{name}:1:boot" for name in names), there, cpu)


@pytest.mark.parametrize(
    ("workers", "expected"),
    [
        ([], capacity(0, there=False)),
        ([runner("a"), runner("b", slots="ocr=3")], capacity(5, "a", "b")),
        ([runner("a"), runner("b", slots="text=9")], capacity(2, "a")),
        ([runner("a", slots="text=9")], capacity(0, there=False)),
        ([runner("a", slots="ocr=0")], capacity(0, there=False)),
        ([runner("a", "busy"), runner("b")], capacity(2, "b")),
        ([runner("a", "busy")], capacity(0)),
        ([runner("a", "stopping")], capacity(0, there=False)),
        ([runner("a", "unhealthy")], capacity(0, there=False)),
        ([runner("a", "of a later version")], capacity(0, there=False)),
    ],
)
def test_only_healthy_runners_have_room(workers: list[WorkerRecord], expected: Capacity) -> None:
    """A busy one is there without room; one that stops or cannot work is not there at all."""
    assert capacity_of(LANE, workers, PLAIN) == expected


@pytest.mark.parametrize(
    ("workers", "expected"),
    [
        ([runner("gpu", gpu=1), runner("cpu")], capacity(2, "gpu", cpu=False)),
        ([runner("gpu", "busy", gpu=1), runner("cpu")], capacity(0, cpu=False)),
        ([runner("gpu", "stopping", gpu=1), runner("cpu")], capacity(0, there=False, cpu=False)),
        ([runner("cpu")], capacity(0, there=False, cpu=False)),
    ],
)
def test_a_lane_for_gpus_waits_for_them(workers: list[WorkerRecord], expected: Capacity) -> None:
    """Without fallback no CPU runner ever reads it, however idle."""
    assert capacity_of(LANE, workers, GPU_FIRST) == expected


@pytest.mark.parametrize(
    ("workers", "expected"),
    [
        ([runner("gpu", gpu=1), runner("cpu")], capacity(2, "gpu", cpu=False)),
        ([runner("gpu", "busy", gpu=1), runner("cpu")], capacity(2, "cpu")),
        ([runner("gpu", "unhealthy", gpu=0), runner("cpu")], capacity(2, "cpu")),
        ([runner("cpu")], capacity(2, "cpu")),
    ],
)
def test_with_fallback_cpu_runners_serve_while_no_gpu_can(workers: list[WorkerRecord], expected: Capacity) -> None:
    """GPUs first; a busy or lost one is stood in for, and its lane is its own again afterwards."""
    assert capacity_of(LANE, workers, FALLBACK) == expected


def test_other_lanes_are_open_to_all() -> None:
    """That ocr is for GPUs says nothing about text."""
    assert capacity_of("text", [runner("gpu", gpu=1), runner("cpu")], GPU_FIRST) == capacity(64, "gpu", "cpu")


async def test_a_record_comes_back_as_it_was_written(settings: Settings) -> None:
    """A load that cannot be measured is unknown on both sides, not 0."""
    clients = RedisClients(settings.redis, name="test")
    registry = Queue(clients, settings).registry
    records = [runner("a"), replace(runner("b"), gpu_util=12.5, gpu_memory_util=0.0, gpu_state="ok")]
    for record in records:
        await registry.report(record, ttl_seconds=5, changed=True, lanes=(LANE,))
    assert await registry.workers() == records
    for record in records:
        await registry.remove(record.name, (LANE,))
    await clients.close()


@pytest.mark.parametrize(
    "damage",
    [
        {"slots": "ocr=many"},
        {"slots": "ocr=-5"},
        {"slots": "ocr=99999999999999999999"},
        {"slots": ""},
        {"cpu_percent": "nan"},
        {"memory_total": "lots"},
        {"pid": ""},
        {"consumer": ""},
        {"hostname": b"\xff\xfe"},
        {b"\xff": "x"},
        None,
        {},
    ],
)
async def test_a_malformed_record_hides_no_other(settings: Settings, damage: dict[object, object] | None) -> None:
    """Numbers that are none, a hash that lacks fields, a key that is no hash: the other runners are seen."""
    clients = RedisClients(settings.redis, name="test")
    queue, redis = Queue(clients, settings), clients.commands
    good, bad = runner("good"), runner("bad")
    for record in (bad, good):
        await queue.registry.report(record, ttl_seconds=5, changed=True, lanes=(LANE,))
    key = queue.keys.named("worker:bad:1")
    if damage:
        await redis.hset(key, mapping=damage)
    else:
        await redis.delete(key)
        if damage is None:
            await redis.set(key, "not a hash", ex=5)
        else:
            await redis.hset(key, "state", "healthy")
            await redis.expire(key, 5)
    await redis.zadd(queue.keys.named("workers"), {b"\xff\xfe": 1})
    workers = await queue.registry.workers()
    assert workers == [good]
    assert capacity_of(LANE, workers, PLAIN).slots == 2
    for name in ("good:1", "bad:1"):
        await queue.registry.remove(name, (LANE,))
    await clients.close()
