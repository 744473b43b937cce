"""What a runner reports of itself, and when."""

from __future__ import annotations

import os

from detectsched.queueing.connection import RedisClients
from detectsched.queueing.queue import Queue
from detectsched.runner.desk import Desk, Job
from detectsched.runner.gpu import GpuWatch
from detectsched.runner.health import Health
from detectsched.runner.heartbeat import Heartbeat
from detectsched.runner.identity import Identity
from detectsched.settings import Settings
from tests.support.nvml import Driver
from tests.support.waiting import wait_until


async def test_the_record_shows_the_busiest_gpu_and_changes_at_once(settings: Settings, driver: Driver) -> None:
    """Having a GPU, losing it: both are published with the change, for they decide what a runner is sent."""
    driver.has_gpu(0, "GPU-a", util=10, used=80, processes=f"{os.getpid()}:80")
    driver.has_gpu(1, "GPU-b", util=30, used=20, processes=f"{os.getpid()}:20")
    clients = RedisClients(settings.redis, name="test")
    queue = Queue(clients, settings)
    heartbeat = Heartbeat(
        queue,
        Identity("host", os.getpid(), "boot"),
        settings.runner,
        slots={"ocr": 2},
        name="name",
        engine=lambda: "rapidocr",
    )
    watch = GpuWatch(None, sample_seconds=0.01)
    health = Health(
        settings.runner,
        engine_ready=lambda: True,
        sibling_pids=heartbeat.sibling_pids,
        on_change=heartbeat.wake,
        gpus=watch,
    )
    heartbeat.health, heartbeat.desk = health, Desk(_no_work, grace_seconds=0)
    await heartbeat.run_once()
    await heartbeat.start()
    await watch.start()
    epoch = await queue.registry.epoch()
    await health.run_once()
    await heartbeat.published()
    [record] = await queue.registry.workers()
    assert (record.gpu_available, record.gpu_util, record.gpu_memory_util) == (1, 30.0, 80.0)
    assert (record.state, record.gpu_state) == ("healthy", "ok")
    assert await queue.registry.epoch() > epoch
    driver.say({"0.memory": 999})

    async def noticed() -> bool:
        return await health.run_once() == "unhealthy"

    await wait_until(noticed, "the GPU lost")
    await heartbeat.published()
    [lost] = await queue.registry.workers()
    assert (lost.gpu_available, lost.gpu_util, lost.state) == (0, None, "unhealthy")
    assert "start it anew" in lost.reason
    await watch.stop()
    await heartbeat.stop()
    assert await queue.registry.workers() == []
    await clients.close()


async def _no_work(job: Job) -> None:
    raise AssertionError(job)
