"""A child process: seen when it ends, ended with all its own, and dead with its parent."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest

from detectsched.embedded.process import Child
from tests.support.waiting import wait_until


def run(script: str, lines: list[str]) -> Child:
    """Start a shell script."""
    return Child("script", ["/bin/sh", "-c", script], environment=os.environ, on_line=lines.append)


def alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


async def test_output_arrives_line_by_line_and_complete() -> None:
    """Standard output and error, the last line without its end included."""
    lines: list[str] = []
    child = run("echo one; echo two >&2; printf three", lines)
    await child.ended.wait()
    assert lines == ["one", "two", "three"]
    assert child.status == 0


async def test_much_output_is_not_lost_at_the_end() -> None:
    """More than a pipe holds, written just before the end."""
    lines: list[str] = []
    child = run("seq 1 100000", lines)
    await child.ended.wait()
    assert lines == [str(number) for number in range(1, 100_001)]


async def test_a_line_without_end_is_cut() -> None:
    """A program that never ends its line cannot fill our memory."""
    lines: list[str] = []
    child = run("head -c 1000000 /dev/zero | tr '\\0' x", lines)
    await child.ended.wait()
    assert sum(map(len, lines)) == 1_000_000
    assert max(map(len, lines)) <= 2 * 64 * 1024


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo oops; exit 3", "script ended with exit status 3; its last words:\n  | oops"),
        ("exit 1", "script ended with exit status 1 without a word"),
        ("kill -SEGV $$", "script was ended by SIGSEGV without a word"),
    ],
)
async def test_its_end_is_described(script: str, words: str) -> None:
    """Which, how, and its last words."""
    child = run(script, [])
    await child.ended.wait()
    assert child.describe_end() == words


async def test_stop_waits_for_an_orderly_end() -> None:
    """A program that ends on SIGTERM is not killed."""
    lines: list[str] = []
    child = run("trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.01; done", lines)
    await wait_until(lambda: lines == ["ready"], "the trap to be set")
    assert await child.stop(signal.SIGTERM, 10.0)
    assert (child.status, lines[-1]) == (0, "bye")


async def test_stop_kills_after_the_grace() -> None:
    """A program that ignores SIGTERM is killed, and so is what it started."""
    lines: list[str] = []
    child = run("trap '' TERM; sleep 60 & echo $!; while :; do sleep 0.01; done", lines)
    await wait_until(lambda: bool(lines), "the script to run")
    assert not await child.stop(signal.SIGTERM, 0.05)
    assert child.status == -signal.SIGKILL
    await wait_until(lambda: not alive(int(lines[0])), "the grandchild's end")


async def test_what_it_started_ends_with_it() -> None:
    """Also after an end of its own accord, and although the grandchild holds the output open."""
    lines: list[str] = []
    child = run("sleep 60 & echo $!", lines)
    await child.ended.wait()
    await wait_until(lambda: not alive(int(lines[0])), "the grandchild's end")


async def test_a_program_that_does_not_exist_is_told() -> None:
    """The leash says why."""
    lines: list[str] = []
    child = Child("nothing", ["/does/not/exist"], environment=os.environ, on_line=lines.append)
    await child.ended.wait()
    assert child.status not in {0, None}
    assert "No such file" in child.describe_end()


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM])
async def test_it_gets_its_signal_when_the_parent_is_killed(signum: signal.Signals, tmp_path: Path) -> None:
    """However the parent dies, the child gets the signal chosen for it."""
    witness = tmp_path / "witness"
    script = (
        "import asyncio, os, signal, sys\nfrom detectsched.embedded.process import Child\n"
        "async def main():\n"
        f"    shell = \"trap 'echo got TERM > {witness}; exit' TERM; echo ready; while :; do sleep 0.01; done\"\n"
        "    chosen = signal.Signals(int(sys.argv[1]))\n"
        "    Child('x', ['/bin/sh', '-c', shell], environment=os.environ, death_signal=chosen,\n"
        "          on_line=lambda line: print(child_pid(), flush=True))\n"
        "    await asyncio.Event().wait()\n"
        "def child_pid():\n"
        "    import psutil\n    return psutil.Process().children()[0].pid\n"
        "asyncio.run(main())\n"
    )
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, str(signum.value), stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdout is not None
    child = int(await parent.stdout.readline())
    assert alive(child)
    parent.kill()
    await parent.communicate()
    await wait_until(lambda: not alive(child), "the child's end")
    assert witness.exists() is (signum is signal.SIGTERM)
