"""The pool: a read per slot, and an engine in every slot whatever happens to the last one."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from detectsched.clock import monotonic
from detectsched.errors import ConfigurationError, EngineFailed, PayloadRejected
from detectsched.ocr.pool import EnginePool
from detectsched.settings import OcrSettings
from tests.ocr.test_process import FAKE, is_gone
from tests.support.waiting import wait_until

Start = Callable[..., Awaitable[EnginePool]]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Start pools of fake engines; none leaves a process behind."""
    pools: list[EnginePool] = []

    async def start(
        *options: str | Path, slots: int = 1, timeout_seconds: float = 60.0, **settings: float
    ) -> EnginePool:
        pool = EnginePool(
            OcrSettings.model_validate(settings),
            slots=slots,
            max_pixels=1000,
            task_timeout_seconds=timeout_seconds,
            command=(*FAKE, *map(str, options)),
        )
        pools.append(pool)
        await pool.start()
        return pool

    yield start
    for pool in pools:
        pids = pool.pids()
        await pool.stop()
        assert pool.pids() == ()
        assert all(is_gone(pid) for pid in pids)


async def text_of(pool: EnginePool, image: str) -> str:
    """Read and return the one line."""
    (line,) = (await pool.read(image.encode())).lines
    return line.text


async def failure_of(pool: EnginePool, image: str) -> str:
    """Read, and return the reason of the failure."""
    with pytest.raises(EngineFailed) as failed:
        await pool.read(image.encode())
    return failed.value.reason


async def test_each_slot_has_a_process_and_reads_run_side_by_side(start: Start, tmp_path: Path) -> None:
    """Two slots: two images at once, the third waits for its turn."""
    pool = await start(slots=2)
    assert pool.healthy
    assert len(pool.pids()) == 2
    assert pool.describe() == {"engine": "fake", "version": "1"}
    gates = [tmp_path / f"gate{n}" for n in range(3)]
    seen = [Path(f"{gate}.seen") for gate in gates]
    reads = [asyncio.create_task(text_of(pool, f"wait_for:{gate}")) for gate in gates]
    await wait_until(lambda: seen[0].exists() and seen[1].exists(), "two images are being read")
    assert not seen[2].exists()
    gates[0].touch()
    await wait_until(seen[2].exists, "the third follows the first")
    for gate in gates:
        gate.touch()
    first, second, third = [int(text) for text in await asyncio.gather(*reads)]
    assert {first, second} == set(pool.pids())
    assert third == first


@pytest.mark.parametrize(
    ("image", "reason"),
    [
        ("crash", "engine_crashed"),
        ("flood:", "engine_crashed"),
        ("hang", "engine_timeout"),
    ],
)
async def test_a_bad_end_costs_one_image_and_one_process(start: Start, image: str, reason: str) -> None:
    """The next image is read by a fresh engine."""
    pool = await start(timeout_seconds=1.0 if image == "hang" else 60.0)
    (before,) = pool.pids()
    assert await failure_of(pool, image) == reason
    assert int(await text_of(pool, "pid")) != before
    assert pool.healthy
    assert pool.replaced == 1


async def test_a_rejected_image_costs_nothing(start: Start) -> None:
    """Same process afterwards."""
    pool = await start()
    with pytest.raises(PayloadRejected):
        await pool.read(b"reject:unsupported_format")
    assert await text_of(pool, "pid") == str(pool.pids()[0])
    assert pool.replaced == 0


async def test_cancelling_a_read_stops_the_work_at_once(start: Start) -> None:
    """The engine is killed and a new one is started without anybody asking for it."""
    pool = await start()
    (before,) = pool.pids()
    reading = asyncio.create_task(pool.read(b"hang"))
    await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    await wait_until(lambda: is_gone(before), "the engine is dead")
    await wait_until(lambda: pool.replaced == 1, "a new one is there")
    assert await text_of(pool, "say:x") == "x"


async def test_cancelling_one_who_waits_for_an_engine_kills_nobody(start: Start, tmp_path: Path) -> None:
    """Only the work that was cancelled stops."""
    pool = await start()
    gate = tmp_path / "gate"
    working = asyncio.create_task(text_of(pool, f"wait_for:{gate}"))
    await wait_until((tmp_path / "gate.seen").exists, "the slot is taken")
    waiting = asyncio.create_task(pool.read(b"say:x"))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    gate.touch()
    assert int(await working) == pool.pids()[0]
    assert await text_of(pool, "say:y") == "y"


async def test_an_idle_engine_that_is_killed_is_replaced(start: Start) -> None:
    """Without waiting for an image to find out, and without costing one."""
    pool = await start(slots=2)
    victim, other = pool.pids()
    os.kill(victim, signal.SIGKILL)
    await wait_until(lambda: pool.replaced == 1 and len(pool.pids()) == 2, "a new engine is there")
    assert other in pool.pids()
    assert await asyncio.gather(*(text_of(pool, f"say:{n}") for n in range(4))) == ["0", "1", "2", "3"]


async def test_worn_engines_are_replaced_without_a_pause(start: Start) -> None:
    """Every image is read; the replacement is ready before the old engine goes."""
    pool = await start(slots=2, recycle_after_images=5)
    texts = await asyncio.gather(*(text_of(pool, f"say:{n}") for n in range(40)))
    assert texts == [str(n) for n in range(40)]
    served = set()
    while pool.replaced < 4:
        served.add(await text_of(pool, "pid"))
    assert len(served) > 2
    await wait_until(lambda: len(pool.pids()) == 2, "the old ones are gone")
    assert pool.healthy


async def test_a_worn_engine_works_on_until_its_replacement_is_ready(start: Start, tmp_path: Path) -> None:
    """Recycling needs no more than one engine at a time to be missing: none."""
    hold = tmp_path / "hold"
    hold.touch()
    pool = await start("--hold", hold, recycle_after_images=1)
    (old,) = pool.pids()
    hold.unlink()
    assert int(await text_of(pool, "pid")) == old
    await wait_until(lambda: len(pool.pids()) == 2, "the replacement is starting")
    assert int(await text_of(pool, "pid")) == old
    hold.touch()
    await wait_until(lambda: pool.replaced == 1, "the replacement is ready")
    assert int(await text_of(pool, "pid")) != old


async def test_an_engine_that_does_not_restart_is_tried_again_ever_more_slowly(start: Start, tmp_path: Path) -> None:
    """The pool is unhealthy, does not eat the machine, and recovers by itself."""
    starts, flag = tmp_path / "starts", tmp_path / "flag"
    pool = await start("--starts", starts, "--unfit-if", flag, start_timeout_seconds=2.0)
    flag.touch()
    assert await failure_of(pool, "crash") == "engine_crashed"
    await wait_until(lambda: not pool.healthy, "the pool is unhealthy")
    began = monotonic()
    assert await failure_of(pool, "say:x") == "engine_unavailable"
    assert monotonic() - began < 5
    assert 2 <= starts.stat().st_size <= 8
    flag.unlink()
    await wait_until(lambda: pool.healthy, "the pool is healthy again")
    assert await text_of(pool, "say:x") == "x"


async def test_engines_that_do_not_start_at_all_are_a_configuration_error(start: Start, tmp_path: Path) -> None:
    """All of them at once, none left over."""
    flag = tmp_path / "flag"
    flag.touch()
    with pytest.raises(ConfigurationError, match="cannot open libengine"):
        await start("--die-if", flag, slots=3)


async def test_stopping_fails_the_reads_and_leaves_nothing(start: Start) -> None:
    """Those who read and those who wait learn it at once; stopping again does nothing."""
    pool = await start()
    reads = [asyncio.create_task(failure_of(pool, "hang")) for _ in range(3)]
    await asyncio.sleep(0)
    pids = pool.pids()
    await pool.stop()
    await pool.stop()
    assert await asyncio.gather(*reads) == ["engine_unavailable"] * 3
    assert all(is_gone(pid) for pid in pids)
    assert not pool.healthy
    assert await failure_of(pool, "say:x") == "engine_unavailable"


async def test_stopping_fails_one_who_waits_for_an_engine_to_restart(start: Start, tmp_path: Path) -> None:
    """At once, not when the patience for the restart ends."""
    hold = tmp_path / "hold"
    hold.touch()
    pool = await start("--hold", hold)
    hold.unlink()
    assert await failure_of(pool, "crash") == "engine_crashed"
    waiting = asyncio.create_task(failure_of(pool, "say:x"))
    await wait_until(pool.pids, "another engine is starting")
    await pool.stop()
    assert await asyncio.wait_for(waiting, 5) == "engine_unavailable"


async def test_waiting_for_a_busy_engine_has_no_limit(start: Start, tmp_path: Path) -> None:
    """Only waiting for one that does not start has: a long image must not fail the next one."""
    pool = await start(start_timeout_seconds=2.0)
    gate = tmp_path / "gate"
    working = asyncio.create_task(text_of(pool, f"wait_for:{gate}"))
    waiting = asyncio.create_task(text_of(pool, "say:x"))
    began = monotonic()
    await wait_until(lambda: monotonic() - began > 2.2, "the limit for a restart has passed")
    gate.touch()
    await working
    assert await waiting == "x"


async def test_a_pool_may_be_started_twice_and_again_after_a_stop(start: Start) -> None:
    """The contract of every service."""
    pool = await start()
    pids = pool.pids()
    await pool.start()
    assert pool.pids() == pids
    await pool.stop()
    await pool.start()
    assert await text_of(pool, "say:x") == "x"
    unborn = EnginePool(OcrSettings(), slots=1, max_pixels=1, task_timeout_seconds=1, command=FAKE)
    await unborn.stop()


async def test_stopping_while_an_engine_restarts_leaves_nothing(start: Start, tmp_path: Path) -> None:
    """The one that is just starting is killed, too."""
    hold = tmp_path / "hold"
    hold.touch()
    pool = await start("--hold", hold)
    hold.unlink()
    assert await failure_of(pool, "crash") == "engine_crashed"
    (starting,) = await wait_until(pool.pids, "another engine is starting")
    await pool.stop()
    assert is_gone(starting)
    assert pool.pids() == ()
