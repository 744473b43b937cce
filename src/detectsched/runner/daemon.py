"""The runner process: its services, in the order in which they start."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from detectsched.db.connection import Ledger
from detectsched.engines.rack import EngineRack
from detectsched.errors import ConfigurationError
from detectsched.lifecycle import Service
from detectsched.ocr.pool import EnginePool
from detectsched.ocr.process import COMMAND
from detectsched.queueing.queue import Queue, Taker
from detectsched.runner.cancels import Cancels
from detectsched.runner.completer import Completer
from detectsched.runner.desk import Desk
from detectsched.runner.drain import Drain
from detectsched.runner.executor import Blobs, Executor
from detectsched.runner.gpu import GpuWatch
from detectsched.runner.gpus import chosen_gpus
from detectsched.runner.health import Health
from detectsched.runner.heartbeat import Heartbeat
from detectsched.runner.identity import Identity
from detectsched.runner.known_images import KnownImages
from detectsched.runner.leases import Leases
from detectsched.runner.matchers import CompiledLists
from detectsched.runner.reader import LaneReader
from detectsched.runner.visible import VISIBLE_DEVICES, number_gpus_by_bus
from detectsched.runner.worker import Worker
from detectsched.settings import Settings
from detectsched.task import LANE_TEXT

_ENGINES_SHARE: Final = 0.95


def slots_of(lanes: Sequence[str], settings: Settings) -> dict[str, int]:
    """Return how many tasks of each lane this runner works on at once.

    Raises:
        ConfigurationError: no lane, or one that does not exist.
    """
    unknown = [lane for lane in lanes if lane not in settings.lanes]
    if unknown or not lanes:
        names = ", ".join(settings.lanes)
        wrong = f"there is no lane {unknown[0]!r}" if unknown else "a runner needs a lane"
        raise ConfigurationError(f"{wrong}; the lanes are: {names} (DETECTSCHED_LANES)")
    runner = settings.runner
    # An engine that reads in batches needs a batch in hand.
    payloads = engine_slots(settings) * settings.ocr.batch_images
    return {lane: runner.text_slots if lane == LANE_TEXT else payloads for lane in lanes}


def engine_slots(settings: Settings) -> int:
    """Return how many engine processes a runner has: one a slot, and at least one on each of its GPUs."""
    return max(settings.runner.ocr_slots, len(settings.ocr.gpus))


def runner_services(
    queue: Queue,
    ledger: Ledger,
    blobs: Blobs,
    settings: Settings,
    lanes: Sequence[str],
    *,
    engine_command: Sequence[str] = COMMAND,
) -> list[Service]:
    """Return a runner's services; ``engine_command`` starts an engine process.

    The engines start first: a runner is announced only when it can work. Readers start last and stop first, then the
    desk finishes or gives back what is in hand; leases are renewed until nothing is, and the runner signs off last.
    """
    slots = slots_of(lanes, settings)
    identity = Identity.of_this_process()
    reads_payloads = any(lane != LANE_TEXT for lane in lanes)
    uuids = chosen_gpus(settings.ocr.gpus, os.environ.get(VISIBLE_DEVICES)) if reads_payloads else []
    gpus = _gpu_watch(uuids) if reads_payloads and settings.ocr.gpu else None
    pool = (
        _pool(settings, engine_command, uuids, gpus, on_change=lambda: health.wake())  # noqa: PLW0108 - made below
        if reads_payloads
        else None
    )
    engines = None if pool is None else EngineRack(pool, partial(_plugin_pool, settings))
    images = None if engines is None else KnownImages(ledger, engines.describe, settings.ocr, on_alarm=engines.recycle)
    completer = Completer(
        queue, ledger, runner=identity.consumer, dead_letters_kept=settings.scheduler.dead_letters_kept
    )
    matchers = CompiledLists(ledger, max_hits=settings.runner.max_hits)
    heartbeat = Heartbeat(
        queue,
        identity,
        settings.runner,
        slots=slots,
        name=settings.runner.name or identity.hostname,
        engine=lambda: "" if pool is None else str(pool.describe().get("engine", "")),
        pool=pool,
        images=images,
        matchers=matchers,
    )
    health = Health(
        settings.runner,
        engine_ready=lambda: pool is None or pool.healthy,
        sibling_pids=heartbeat.sibling_pids,
        on_change=heartbeat.wake,
        idle_seconds=lambda: desk.idle_seconds(),  # noqa: PLW0108 - the desk is made below
        gpus=gpus,
        gpu_works=lambda: pool is None or pool.on_gpu,
    )
    worker = Worker(
        Executor(engines, blobs, matchers, images),
        completer,
        settings,
        may_work=health.may_work,
        published=heartbeat.published,
        taker_of=lambda lane: _taker_of(lane, readers, identity.consumer),
    )
    desk = Desk(worker.work, grace_seconds=settings.runner.grace_seconds)
    heartbeat.health, heartbeat.desk = health, desk
    readers = [
        LaneReader(
            queue,
            desk,
            lane=lane,
            consumer=identity.consumer,
            slots=count,
            may_fetch=health.may_work,
            asks_admission=partial(_lacks_gpu, lane in settings.scheduler.gpu_lanes, pool),
            # Redis may have forgotten this runner too: nobody hands out work until it has reported itself again.
            on_return=heartbeat.wake,
        )
        for lane, count in slots.items()
    ]
    completer.reply_lost = partial(_expect_unseen, readers)
    machinery: list[Service] = [service for service in (engines, gpus) if service is not None]
    leases = Leases(queue, desk, identity.consumer, settings)
    drain = Drain(queue, settings.runner.name or identity.hostname, health)
    notice = StopNotice(health, heartbeat)
    return [*machinery, health, drain, heartbeat, leases, Cancels(queue, desk), desk, notice, *readers]


def _taker_of(lane: str, readers: Sequence[LaneReader], consumer: str) -> Taker | None:
    """Who takes the next task of a lane without asking: this runner, while it may."""
    return next((Taker(consumer, lane) for reader in readers if reader.lane == lane and reader.takes), None)


def _expect_unseen(readers: Sequence[LaneReader]) -> None:
    for reader in readers:
        reader.expect_unseen()


def _lacks_gpu(lane_is_for_gpus: bool, pool: EnginePool | None) -> bool:
    """Whether the engines serve a lane for GPUs without one: from the start, or since it failed."""
    return lane_is_for_gpus and not (pool is not None and pool.on_gpu)


def _pool(
    settings: Settings,
    command: Sequence[str],
    uuids: Sequence[str],
    gpus: GpuWatch | None,
    on_change: Callable[[], None],
) -> EnginePool:
    return EnginePool(
        settings.ocr,
        slots=engine_slots(settings),
        max_pixels=settings.api.max_image_pixels,
        # Before the task's own time is over: an image that makes engines hang is then known as the cause.
        task_timeout_seconds=_ENGINES_SHARE * settings.runner.task_timeout_seconds,
        command=command,
        gpu_uuids=uuids,
        gpu_memory_of=gpus.held_by if gpus is not None else lambda _: None,
        on_change=on_change,
    )


def _plugin_pool(settings: Settings, command: Sequence[str]) -> EnginePool:
    # The GPU is the OCR engine's; what another engine wants of it is not known.
    return EnginePool(
        settings.ocr.on_cpu(),
        slots=settings.runner.ocr_slots,
        max_pixels=settings.api.max_image_pixels,
        task_timeout_seconds=settings.runner.task_timeout_seconds,
        command=command,
    )


def _gpu_watch(uuids: Sequence[str]) -> GpuWatch:
    number_gpus_by_bus()
    if uuids:
        return GpuWatch(",".join(uuids))
    # The engines work on the first GPU that they see: what happens on the others is not theirs.
    return GpuWatch(os.environ.get(VISIBLE_DEVICES), used=1)


class StopNotice(Service):
    """Says "stopping" after the readers have stopped and before anything is given back."""

    def __init__(self, health: Health, heartbeat: Heartbeat) -> None:
        self._health = health
        self._heartbeat = heartbeat

    async def start(self) -> None:
        """Nothing to begin."""

    async def stop(self) -> None:
        """Publish that nothing new is taken."""
        self._health.announce_stop()
        await self._heartbeat.published()
