"""One engine process, misbehaving in every way there is (through the real protocol, see `fake_child`)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import psutil
import pytest

from detectsched.clock import monotonic
from detectsched.errors import ConfigurationError, EngineFailed, PayloadRejected
from detectsched.ocr.process import EngineProcess
from detectsched.settings import OcrSettings
from tests.support.waiting import wait_until

FAKE = (sys.executable, str(Path(__file__).with_name("fake_child.py")))
LONG = 60.0

Start = Callable[..., Awaitable[EngineProcess]]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Start fake engine processes; all are gone after the test."""
    processes: list[EngineProcess] = []

    async def start(*options: str | Path, **settings: float) -> EngineProcess:
        process = EngineProcess(
            OcrSettings.model_validate(settings), slots=1, max_pixels=1000, command=(*FAKE, *map(str, options))
        )
        processes.append(process)
        await process.start()
        return process

    yield start
    for process in processes:
        await process.stop()
        assert not process.alive


async def text_of(process: EngineProcess, image: str) -> str:
    """Read and return the one line."""
    (line,) = (await process.read(image.encode(), LONG)).lines
    return line.text


async def failure_of(process: EngineProcess, image: str, timeout_seconds: float = LONG) -> EngineFailed:
    """Read, and return how it failed."""
    with pytest.raises(EngineFailed) as failed:
        await process.read(image.encode(), timeout_seconds)
    assert not process.alive
    return failed.value


async def test_images_are_read_one_after_the_other(start: Start) -> None:
    """The result names engine and version; the process stays the same."""
    process = await start()
    assert process.pid is not None
    assert process.rss > 0
    assert [await text_of(process, f"say:{n}") for n in range(3)] == ["0", "1", "2"]
    result = await process.read(b"say:hello", LONG)
    assert (result.engine, result.version, result.width, result.height) == ("fake", "1", 10, 10)
    assert process.images == 4


async def test_a_large_image_goes_through(start: Start) -> None:
    """Twenty megabytes are more than a pipe holds."""
    process = await start()
    assert await text_of(process, "say:" + "x" * 10_000_000) == "x" * 10_000_000


async def test_an_image_that_is_rejected_costs_no_process(start: Start) -> None:
    """The image's fault, not the engine's."""
    process = await start()
    with pytest.raises(PayloadRejected) as rejected:
        await process.read(b"reject:undecodable_image", LONG)
    assert rejected.value.reason == "undecodable_image"
    assert await text_of(process, "say:next") == "next"


async def test_a_crash_fails_one_image_and_names_the_signal(start: Start) -> None:
    """Native code dies of a signal; the detail says which."""
    failed = await failure_of(await start(), "crash")
    assert (failed.reason, failed.detail) == ("engine_crashed", "the engine process was ended by SIGSEGV")
    failed = await failure_of(await start(), "exit:3")
    assert (failed.reason, failed.detail) == ("engine_crashed", "the engine process ended with status 3")


async def test_kill_9_in_the_middle_of_an_image_is_a_crash(start: Start) -> None:
    """As the kernel does when memory runs out."""
    process = await start()
    reading = asyncio.create_task(failure_of(process, "hang"))
    await wait_until(lambda: process.images == 1, "the image is being read")
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    assert (await reading).reason == "engine_crashed"


async def test_a_hang_ends_with_the_time_out(start: Start) -> None:
    """The process is killed: a thread in native code cannot be stopped otherwise."""
    process = await start()
    pid = process.pid
    failed = await failure_of(process, "hang", 0.1)
    assert (failed.reason, failed.detail) == ("engine_timeout", "the image was not read within 0.1 s")
    await process.ended()
    assert pid is not None
    assert not psutil.pid_exists(pid)


async def test_cancelling_a_read_kills_the_process(start: Start) -> None:
    """A cancelled task must not go on eating the machine."""
    process = await start()
    pid = process.pid
    assert pid is not None
    reading = asyncio.create_task(process.read(b"hang", LONG))
    await wait_until(lambda: process.images == 1, "the image is being read")
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert not process.alive
    await process.ended()
    assert not psutil.pid_exists(pid)


async def test_what_the_engine_started_dies_with_it(start: Start, tmp_path: Path) -> None:
    """The whole group is killed: a library's helper would keep the GPU's memory."""
    process = await start()
    note = tmp_path / "pid"
    reading = asyncio.create_task(process.read(f"parent_and_hang:{note}".encode(), LONG))
    helper = int(await wait_until(lambda: note.exists() and note.read_text(), "the helper runs"))
    assert psutil.pid_exists(helper)
    reading.cancel()
    await process.ended()
    await wait_until(lambda: is_gone(helper), "the helper is gone")


async def test_what_a_crashed_engine_started_dies_too(start: Start, tmp_path: Path) -> None:
    """A helper with our pipe in its hands would keep us waiting for its end."""
    process = await start()
    note = tmp_path / "pid"
    reading = asyncio.create_task(failure_of(process, f"parent_and_hang:{note}"))
    helper = int(await wait_until(lambda: note.exists() and note.read_text(), "the helper runs"))
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    assert (await reading).reason == "engine_crashed"
    await wait_until(lambda: is_gone(helper), "the helper is gone")


def is_gone(pid: int) -> bool:
    """Tell whether a process has ended (an orphan may stay a zombie where nobody reaps)."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


async def test_an_endless_answer_is_not_taken(start: Start) -> None:
    """A gigabyte of output is refused by its announced length; our memory stays what it was."""
    process = await start()
    before = psutil.Process().memory_info().rss
    failed = await failure_of(process, "flood:")
    assert failed.reason == "engine_crashed"
    assert "an answer of 1073741824 bytes" in failed.detail
    assert psutil.Process().memory_info().rss - before < 50_000_000


async def test_a_flood_of_messages_neither_blocks_the_engine_nor_fills_our_memory(start: Start) -> None:
    """Standard error is read all the time and forgotten."""
    process = await start()
    before = psutil.Process().memory_info().rss
    assert await text_of(process, "shout:300") == "shouted"
    assert psutil.Process().memory_info().rss - before < 50_000_000


@pytest.mark.parametrize(
    ("image", "says"),
    [("junk", "nonsense"), ("stale:x", "an answer to another question"), ("twice:x", "nobody asked for")],
)
async def test_an_answer_that_cannot_be_this_images_is_not_believed(start: Start, image: str, says: str) -> None:
    """A shifted answer would accuse the wrong device."""
    process = await start()
    with pytest.raises(EngineFailed) as failed:  # noqa: PT012 - a second answer shows with the next question at latest
        await process.read(image.encode(), LONG)
        await process.read(b"hang", LONG)
    assert failed.value.reason == "engine_crashed"
    assert says in failed.value.detail
    assert not process.alive


async def test_an_engine_that_grows_too_large_is_killed(start: Start) -> None:
    """Before the kernel chooses a victim."""
    failed = await failure_of(await start(max_memory_mb=512), "grow_and_hang:600")
    assert failed.reason == "out_of_memory"
    assert "512 MB" in failed.detail


async def test_an_engine_is_worn_after_so_many_images(start: Start) -> None:
    """Not before, not later."""
    process = await start(recycle_after_images=2)
    await text_of(process, "say:1")
    assert not process.worn
    await text_of(process, "say:2")
    assert process.worn


async def test_an_engine_is_worn_when_it_has_grown(start: Start) -> None:
    """Measured from its first image on: that one loads what the engine keeps anyway."""
    process = await start(recycle_growth_mb=64)
    await text_of(process, "grow:80")
    assert not process.worn
    await text_of(process, "grow:80")
    assert process.worn


async def test_an_engine_gets_no_credentials(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by its environment nor by its command line."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    process = await start(threads=3)
    assert await text_of(process, "environment:AWS_SECRET_ACCESS_KEY") == "-"
    assert await text_of(process, "environment:OMP_NUM_THREADS") == "3"


async def test_an_engine_that_cannot_be_used_says_why(start: Start, tmp_path: Path) -> None:
    """Its own words, as a configuration error."""
    flag = tmp_path / "flag"
    flag.touch()
    with pytest.raises(ConfigurationError, match=r"^the models are missing$"):
        await start("--unfit-if", flag)
    with pytest.raises(ConfigurationError, match=r"status 7; it said: .*cannot open libengine\.so"):
        await start("--die-if", flag)


async def test_an_engine_that_does_not_get_ready_is_given_up(start: Start, tmp_path: Path) -> None:
    """Start-up has its own limit, and leaves no process behind."""
    with pytest.raises(ConfigurationError, match=r"not ready within 0\.5 s"):
        await start("--hold", tmp_path / "never", start_timeout_seconds=0.5)


async def test_stopping_twice_or_before_the_start_does_nothing(start: Start) -> None:
    """As every service."""
    unborn = EngineProcess(OcrSettings(), slots=1, max_pixels=1000, command=FAKE)
    await unborn.stop()
    assert (unborn.alive, unborn.pid, unborn.rss) == (False, None, 0)
    process = await start()
    await process.stop()
    await process.stop()
    assert (process.alive, process.pid, process.rss) == (False, None, 0)


async def test_stopping_interrupts_a_read(start: Start) -> None:
    """The task is given back, not blamed."""
    process = await start()
    reading = asyncio.create_task(failure_of(process, "hang"))
    await wait_until(lambda: process.images == 1, "the image is being read")
    await process.stop()
    assert (await reading).reason == "engine_unavailable"


async def test_retiring_waits_for_the_image_that_is_being_read(start: Start, tmp_path: Path) -> None:
    """Recycling costs no task."""
    process = await start()
    gate = tmp_path / "gate"
    reading = asyncio.create_task(text_of(process, f"wait_for:{gate}"))
    await wait_until((tmp_path / "gate.seen").exists, "the image is being read")
    retiring = asyncio.create_task(process.retire())
    gate.touch()
    assert (await reading).isdigit()
    await retiring
    assert not process.alive


PARENT = """
import asyncio, sys
from detectsched.ocr.process import EngineProcess
from detectsched.settings import OcrSettings
async def main():
    process = EngineProcess(OcrSettings(), slots=1, max_pixels=1000, command=sys.argv[1:])
    await process.start()
    print(process.pid, flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


async def test_an_idle_engine_ends_when_the_runner_is_killed() -> None:
    """The pipe closes; that a busy real one dies at once is shown in `test_real`."""
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", PARENT, *FAKE, stdout=asyncio.subprocess.PIPE)
    assert parent.stdout is not None
    engine = int(await parent.stdout.readline())
    assert psutil.pid_exists(engine)
    parent.kill()
    await parent.communicate()
    await wait_until(lambda: is_gone(engine), "the engine has followed")


async def test_the_settings_do_not_show_in_the_process_list(start: Start) -> None:
    """They go through the pipe."""
    process = await start(recycle_after_images=777)
    assert process.pid is not None
    shown = psutil.Process(process.pid)
    assert "777" not in " ".join(shown.cmdline()) + " ".join(shown.environ().values())


def test_starting_takes_no_longer_than_it_must() -> None:
    """The fake child is quick, so that the tests above wait for behaviour, not for imports."""
    started = monotonic()
    subprocess.run([*FAKE], input=b"", check=False, capture_output=True)
    assert monotonic() - started < 5
