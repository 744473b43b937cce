"""An executor that remembers: images are read once, poison is given to two engines and no third."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from uuid import UUID

import pytest

from detectsched.attempt import EngineRead, Started
from detectsched.db.accept import accept
from detectsched.db.connection import Ledger
from detectsched.db.results import end, save_reads
from detectsched.db.starts import start
from detectsched.detection import Box, Detection, EngineResult, Line
from detectsched.engines.rack import EngineRack
from detectsched.errors import EngineFailed, PoisonImage, TaskFailed
from detectsched.ocr.pool import EnginePool
from detectsched.runner.executor import Executor
from detectsched.runner.known_images import KnownImages
from detectsched.runner.matchers import CompiledLists
from detectsched.runner.outcome import ending_of, outcome_of
from detectsched.settings import OcrSettings, SchedulerSettings, Settings
from detectsched.task import DEFAULT_TENANT, Delivery, TaskKind
from tests.ocr.test_process import FAKE
from tests.support.actors import new_text
from tests.support.waiting import wait_until

OTHER = "other"


class Blobs:
    """Holds every blob under its content."""

    async def get(self, key: str) -> bytes:
        """Return the key's bytes."""
        return bytes.fromhex(key)


class Machine:
    """A runner's examining part, with a fake engine and a real ledger."""

    def __init__(self, ledger: Ledger, pool: EnginePool, settings: OcrSettings) -> None:
        self.ledger, self.pool = ledger, pool
        self.rack = EngineRack(pool, lambda _: pool)
        self.alarms = 0
        self.images = KnownImages(ledger, self.rack.describe, settings, on_alarm=self._alarm)
        self.executor = Executor(self.rack, Blobs(), CompiledLists(ledger), self.images)

    def _alarm(self) -> None:
        self.alarms += 1

    async def submit(self, image: str, tenant: str = DEFAULT_TENANT) -> UUID:
        """Accept an image."""
        data = image.encode()
        wanted = replace(
            new_text(1), kind=TaskKind.IMAGE, lane="ocr", text=None, engine="ocr", tenant=tenant,
            blob=data.hex(), blob_sha256=hashlib.sha256(data).digest(),
        )  # fmt: skip
        [accepted] = await accept(self.ledger, [wanted])
        return accepted.task.id

    async def work(self, task_id: UUID, number: int = 1) -> str:
        """Do one try at a task to its end, as a worker does; return the text, or the reason of its failure."""
        [started] = await start(self.ledger, [Delivery(task_id, number, "ocr", "1-1")], runner="r1")
        assert isinstance(started, Started)
        read: list[EngineResult] = []

        async def keep(result: EngineResult) -> None:
            read.append(result)
            await save_reads(self.ledger, [EngineRead(task_id, started.tenant, started.fence, result)])

        error: TaskFailed | None = None
        try:
            await self.executor.examine(started, keep)
        except TaskFailed as failed:
            error = failed
        outcome = outcome_of(error, stop=None, attempts=started.attempts, settings=SchedulerSettings())
        await end(self.ledger, [ending_of(started, outcome, Detection() if error is None else None)])
        return error.reason if error else read[0].joined().content

    async def state(self, task_id: UUID) -> str:
        """Return a task's state."""
        async with self.ledger.connection() as connection:
            return str(await connection.fetchval("SELECT state FROM task WHERE id = $1", task_id))


@asynccontextmanager
async def machine(ledger: Ledger, **settings: float) -> AsyncIterator[Machine]:
    """Run one."""
    ocr = OcrSettings.model_validate(settings)
    pool = EnginePool(ocr, slots=1, max_pixels=1000, task_timeout_seconds=60, command=FAKE)
    await pool.start()
    try:
        yield Machine(ledger, pool, ocr)
    finally:
        await pool.stop()


@pytest.fixture
async def ledger(settings: Settings) -> AsyncIterator[Ledger]:
    """Give a ledger with two tenants."""
    opened = Ledger(settings.postgres)
    async with opened.connection() as connection:
        await connection.execute("INSERT INTO tenant (id, name) VALUES ($1, 'Other')", OTHER)
    yield opened
    await opened.close()


async def test_an_identical_image_is_not_read_again(ledger: Ledger) -> None:
    """The same text and boxes under a task of its own; another image, or another tenant's, is read."""
    async with machine(ledger) as runner:
        first = await runner.work(await runner.submit("say:hello"))
        assert await runner.work(await runner.submit("say:hello")) == first == "hello"
        assert (runner.images.read, runner.images.reused) == (1, 1)
        await runner.work(await runner.submit("say:hello", OTHER))
        await runner.work(await runner.submit("say:other"))
        assert (runner.images.read, runner.images.reused) == (3, 1)


async def test_reuse_can_be_switched_off(ledger: Ledger) -> None:
    """With 0 seconds."""
    async with machine(ledger, reuse_seconds=0) as runner:
        for _ in range(2):
            await runner.work(await runner.submit("say:hello"))
        assert (runner.images.read, runner.images.reused) == (2, 0)


async def test_an_image_that_crashes_two_engines_is_poison(ledger: Ledger) -> None:
    """The first crash costs its task an attempt; the second makes it a dead letter, with attempts left."""
    async with machine(ledger) as runner:
        task = await runner.submit("crash")
        assert await runner.work(task) == "engine_crashed"
        assert await runner.state(task) == "queued"
        assert await runner.work(task, 2) == "poison"
        assert await runner.state(task) == "dead"


async def test_poison_sent_again_is_known_and_meets_no_engine(ledger: Ledger) -> None:
    """Under another task's id, by the same tenant; it ends at once as a dead letter that can be studied."""
    async with machine(ledger) as runner:
        for reason in ("engine_crashed", "poison"):
            assert await runner.work(await runner.submit("crash")) == reason
        assert await runner.work(await runner.submit("say:innocent")) == "innocent"
        before = runner.pool.replaced
        again = await runner.submit("crash")
        assert await runner.work(again) == "poison"
        assert await runner.state(again) == "dead"
        assert (runner.pool.replaced, runner.images.poison) == (before, 2)
        assert await runner.work(await runner.submit("crash", OTHER)) == "engine_crashed"


async def test_what_is_not_the_images_doing_makes_no_poison(ledger: Ledger) -> None:
    """Errors of an engine that lives on, and memory that runs out, are counted as attempts only."""
    async with machine(ledger) as runner:
        for image in ("oom_unless:never", "reject:unsupported_format"):
            for _ in range(3):
                assert await runner.work(await runner.submit(image)) in {"out_of_memory", "unsupported_format"}


async def test_many_images_without_text_raise_the_alarm(ledger: Ledger) -> None:
    """It tells the engines to be replaced: fresh ones must read their test image."""
    async with machine(ledger) as runner:
        line = Line("words", Box(0, 0, 1, 1), 1.0)
        for lines in [(line,)] * 300 + [()] * 50:
            runner.images.learn(EngineResult("fake", "1", lines, 10, 10, 0.1))
        assert runner.alarms == 1
        before = runner.pool.pids()
        runner.rack.recycle()
        await wait_until(lambda: runner.pool.replaced == 1, "the engine is replaced")
        assert await runner.work(await runner.submit("pid")) not in map(str, before)


async def test_an_image_known_as_poison_is_refused_before_its_blob_is_fetched(ledger: Ledger) -> None:
    """The executor raises what ends the task."""
    async with machine(ledger) as runner:
        for _ in range(2):
            await runner.work(await runner.submit("crash"))
        [started] = await start(ledger, [Delivery(await runner.submit("crash"), 1, "ocr", "1-1")], runner="r1")
        assert isinstance(started, Started)

        async def keep(_: EngineResult) -> None:
            raise AssertionError("nothing was read")

        with pytest.raises(PoisonImage, match="2 times"):
            await runner.executor.examine(replace(started, blob="no hexadecimal"), keep)
        assert issubclass(PoisonImage, EngineFailed)
