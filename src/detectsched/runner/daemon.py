"""The runner process: its services, in the order in which they start."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from detectsched.db.connection import Ledger
from detectsched.errors import ConfigurationError
from detectsched.lifecycle import Service
from detectsched.ocr.process import COMMAND
from detectsched.queueing.queue import Queue, Taker
from detectsched.runner.cancels import Cancels
from detectsched.runner.completer import Completer
from detectsched.runner.desk import Desk
from detectsched.runner.drain import Drain
from detectsched.runner.executor import Blobs, Executor
from detectsched.runner.health import Health
from detectsched.runner.heartbeat import Heartbeat
from detectsched.runner.identity import Identity
from detectsched.runner.leases import Leases
from detectsched.runner.machinery import Machinery, engine_slots
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
    # An engine that reads in batches needs a batch in hand.
    payloads = engine_slots(settings) * settings.ocr.batch_images
    return {lane: runner.text_slots if lane == LANE_TEXT else payloads for lane in lanes}


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
    label = settings.runner.name or identity.hostname
    # What is made below is called only when all of it is there.
    machinery = Machinery.serving(
        lanes,
        settings,
        ledger,
        command=engine_command,
        on_change=lambda: health.wake(),  # noqa: PLW0108
    )
    matchers = CompiledLists(ledger, max_hits=settings.runner.max_hits, library=settings.runner.search_library)
    heartbeat = _heartbeat(queue, identity, label, settings, slots, machinery, matchers)
    health = _health(settings, machinery, heartbeat, idle_seconds=lambda: desk.idle_seconds())  # noqa: PLW0108
    completer = Completer(
        queue, ledger, runner=identity.consumer, dead_letters_kept=settings.scheduler.dead_letters_kept
    )
    worker = Worker(
        Executor(machinery.engines, blobs, matchers, machinery.images),
        completer,
        settings,
        may_work=health.may_work,
        published=heartbeat.published,
        taker_of=lambda lane: _taker_of(lane, readers, identity.consumer),
    )
    desk = Desk(worker.work, grace_seconds=settings.runner.grace_seconds)
    heartbeat.health, heartbeat.desk, heartbeat.fenced = health, desk, lambda: worker.fenced
    readers = _readers(queue, desk, health, heartbeat, machinery, settings, slots, identity.consumer)
    completer.reply_lost = partial(_expect_unseen, readers)
    leases = Leases(queue, desk, identity.consumer, settings)
    drain, notice = Drain(queue, label, health), StopNotice(health, heartbeat)
    return [*machinery.services(), health, drain, heartbeat, leases, Cancels(queue, desk), desk, notice, *readers]


def _heartbeat(
    queue: Queue,
    identity: Identity,
    label: str,
    settings: Settings,
    slots: Mapping[str, int],
    machinery: Machinery,
    matchers: CompiledLists,
) -> Heartbeat:
    return Heartbeat(
        queue,
        identity,
        settings.runner,
        slots=slots,
        name=label,
        engine=machinery.engine,
        pool=machinery.pool,
        images=machinery.images,
        matchers=matchers,
    )


def _health(
    settings: Settings, machinery: Machinery, heartbeat: Heartbeat, *, idle_seconds: Callable[[], float]
) -> Health:
    return Health(
        settings.runner,
        engine_ready=machinery.is_ready,
        sibling_pids=heartbeat.sibling_pids,
        on_change=heartbeat.wake,
        idle_seconds=idle_seconds,
        gpus=machinery.gpus,
        gpu_works=machinery.gpu_works,
    )


def _readers(
    queue: Queue,
    desk: Desk,
    health: Health,
    heartbeat: Heartbeat,
    machinery: Machinery,
    settings: Settings,
    slots: Mapping[str, int],
    consumer: str,
) -> list[LaneReader]:
    return [
        LaneReader(
            queue,
            desk,
            lane=lane,
            consumer=consumer,
            slots=count,
            may_fetch=health.may_work,
            asks_admission=partial(machinery.lacks_gpu, lane in settings.scheduler.gpu_lanes),
            # Redis may have forgotten this runner too: nobody hands out work until it has reported itself again.
            on_return=heartbeat.wake,
        )
        for lane, count in slots.items()
    ]


def _taker_of(lane: str, readers: Sequence[LaneReader], consumer: str) -> Taker | None:
    """Who takes the next task of a lane without asking: this runner, while it may."""
    return next((Taker(consumer, lane) for reader in readers if reader.lane == lane and reader.takes), None)


def _expect_unseen(readers: Sequence[LaneReader]) -> None:
    for reader in readers:
        reader.expect_unseen()


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
