"""The runner process: its services, in the order in which they start."""

from __future__ import annotations

from collections.abc import Sequence

from detectsched.db.connection import Ledger
from detectsched.errors import ConfigurationError
from detectsched.lifecycle import Service
from detectsched.ocr.pool import EnginePool
from detectsched.queueing.queue import Queue
from detectsched.runner.cancels import Cancels
from detectsched.runner.completer import Completer
from detectsched.runner.desk import Desk
from detectsched.runner.executor import Blobs, Executor
from detectsched.runner.health import Health
from detectsched.runner.heartbeat import Heartbeat
from detectsched.runner.identity import Identity
from detectsched.runner.leases import Leases
from detectsched.runner.matchers import CompiledLists
from detectsched.runner.reader import LaneReader
from detectsched.runner.worker import Worker
from detectsched.settings import Settings
from detectsched.task import LANE_TEXT


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
    return {lane: runner.text_slots if lane == LANE_TEXT else runner.ocr_slots for lane in lanes}


def runner_services(
    queue: Queue, ledger: Ledger, blobs: Blobs, settings: Settings, lanes: Sequence[str]
) -> list[Service]:
    """Return a runner's services.

    The engines start first: a runner is announced only when it can work. Readers start last and stop first, then the
    desk finishes or gives back what is in hand; leases are renewed until nothing is, and the runner signs off last.
    """
    slots = slots_of(lanes, settings)
    identity = Identity.of_this_process()
    reads_images = any(lane != LANE_TEXT for lane in lanes)
    pool = (
        EnginePool(
            settings.ocr,
            slots=settings.runner.ocr_slots,
            max_pixels=settings.api.max_image_pixels,
            task_timeout_seconds=settings.runner.task_timeout_seconds,
        )
        if reads_images
        else None
    )
    completer = Completer(
        queue, ledger, runner=identity.consumer, dead_letters_kept=settings.scheduler.dead_letters_kept
    )
    worker = Worker(Executor(pool, blobs, CompiledLists(ledger)), completer, settings)
    desk = Desk(worker.work, grace_seconds=settings.runner.grace_seconds)
    heartbeat = Heartbeat(
        queue,
        identity,
        settings.runner,
        slots=slots,
        engine=lambda: "" if pool is None else str(pool.describe().get("engine", "")),
    )
    health = Health(
        settings.runner,
        engine_ready=lambda: pool is None or pool.healthy,
        sibling_pids=heartbeat.sibling_pids,
        on_change=heartbeat.wake,
        uses_gpu=settings.ocr.gpu,
    )
    heartbeat.health, heartbeat.desk = health, desk
    readers = [
        LaneReader(
            queue,
            desk,
            lane=lane,
            consumer=identity.consumer,
            slots=count,
            may_fetch=health.may_fetch,
            # Redis may have forgotten this runner too: nobody hands out work until it has reported itself again.
            on_return=heartbeat.wake,
        )
        for lane, count in slots.items()
    ]
    engines: list[Service] = [] if pool is None else [pool]
    leases = Leases(queue, desk, identity.consumer, settings)
    return [*engines, health, heartbeat, leases, Cancels(queue, desk), desk, StopNotice(health), *readers]


class StopNotice(Service):
    """Says "stopping" after the readers have stopped and before anything is given back."""

    def __init__(self, health: Health) -> None:
        self._health = health

    async def start(self) -> None:
        """Nothing to begin."""

    async def stop(self) -> None:
        """Publish that nothing new is taken."""
        self._health.announce_stop()
