"""An engine process for tests: speaks the real protocol and misbehaves as the image says.

The "image" is ``word`` or ``word:argument``; see `BEHAVIOURS`. Options: ``--starts FILE`` adds a byte to the file at
each start; ``--hold FILE`` gets ready only once the file exists; ``--unfit-if FILE`` refuses to get ready,
``--no-gpu-if FILE`` does so on a GPU, and ``--die-if FILE`` crashes at start, while the file exists.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from detectsched.detection import Box, Line
from detectsched.ocr.protocol import (
    Broken,
    Done,
    DoneMany,
    Read,
    ReadMany,
    Ready,
    Rejected,
    Setup,
    Unfit,
    frame,
    receive_request,
)

MB = 1024 * 1024
kept: list[bytearray] = []
now: set[str] = set()
"""What is so at this moment: gpu or cpu, and thrifty."""


def done(serial: int, text: str) -> bytes:
    """Answer with one line."""
    return frame(Done(serial, (Line(text, Box(0, 0, 10, 10), 1.0),), 10, 10, 0.0))


def hang(serial: int, _: str) -> bytes:
    """Never answer."""
    while True:
        signal.pause()


def crash(serial: int, _: str) -> bytes:
    """Die as native code dies."""
    os.kill(os.getpid(), signal.SIGSEGV)
    return b""


def flood(serial: int, size: str) -> bytes:
    """Send an endless answer."""
    sys.stdout.buffer.write((2**30).to_bytes(4, "big"))
    while True:
        sys.stdout.buffer.write(b"\0" * MB)


def shout(serial: int, megabytes: str) -> bytes:
    """Flood standard error, then answer."""
    for _ in range(int(megabytes)):
        sys.stderr.buffer.write(b"x" * MB)
    return done(serial, "shouted")


def grow(serial: int, megabytes: str) -> bytes:
    """Take memory; with a limit above that, answer."""
    kept.extend(bytearray(os.urandom(1) * MB) for _ in range(int(megabytes)))
    return done(serial, f"{os.getpid()}")


def grow_and_hang(serial: int, megabytes: str) -> bytes:
    """Take memory and never answer."""
    grow(serial, megabytes)
    return hang(serial, "")


def parent_and_hang(serial: int, path: str) -> bytes:
    """Start a process, write down its id, never answer."""
    child = subprocess.Popen(["/bin/sleep", "600"], stdout=sys.stderr)
    Path(path).write_text(str(child.pid))
    return hang(serial, "")


def wait_for(serial: int, path: str) -> bytes:
    """Answer once a file exists; write ``path.seen`` first."""
    Path(path + ".seen").touch()
    while not Path(path).exists():
        time.sleep(0.005)
    return done(serial, str(os.getpid()))


def where(serial: int, _: str = "") -> bytes:
    """Answer with the device, whether thrifty, and the process."""
    return done(serial, " ".join([*sorted(now), str(os.getpid())]))


def fail_unless(reason: str) -> Callable[[int, str], bytes]:
    """Fail for a reason, as the real child does, unless all of the argument's words are so."""

    def behave(serial: int, wanted: str) -> bytes:
        if set(wanted.split()) <= now:
            return where(serial)
        sys.stdout.buffer.write(frame(Broken(serial, reason, f"{reason} on purpose")))
        sys.stdout.buffer.flush()
        os._exit(1)

    return behave


def die_saying(serial: int, words: str) -> bytes:
    """Die as a C++ library dies of an exception."""
    print(words, file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGABRT)
    return b""


def together(request: ReadMany) -> bytes:
    """Answer for each image of a batch: how many there were, and its text; the first that misbehaves does so for all.

    ``short`` forgets one of them.
    """
    each: list[Done | Rejected] = []
    for data in request.images:
        word, _, argument = data.decode().partition(":")
        if word == "say":
            text = f"{len(request.images)} {argument}"
            each.append(Done(request.serial, (Line(text, Box(0, 0, 10, 10), 1.0),), 10, 10, 0.0))
        elif word == "reject":
            each.append(Rejected(request.serial, argument, "no"))
        elif word != "short":
            BEHAVIOURS[word](request.serial, argument)
    return frame(DoneMany(request.serial, tuple(each)))


BEHAVIOURS: dict[str, Callable[[int, str], bytes]] = {
    "say": done,
    "pid": lambda serial, _: done(serial, str(os.getpid())),
    "environment": lambda serial, name: done(serial, os.environ.get(name, "-")),
    "reject": lambda serial, reason: frame(Rejected(serial, reason, "no")),
    "hang": hang,
    "crash": crash,
    "exit": lambda _, status: os._exit(int(status)),
    "flood": flood,
    "shout": shout,
    "grow": grow,
    "grow_and_hang": grow_and_hang,
    "parent_and_hang": parent_and_hang,
    "wait_for": wait_for,
    "twice": lambda serial, text: done(serial, text) * 2,
    "stale": lambda serial, text: done(serial - 1, text),
    "where": where,
    "oom_unless": fail_unless("out_of_memory"),
    "cuda_unless": fail_unless("gpu_error"),
    "die_saying": die_saying,
    "gpu_uuid": lambda serial, _: done(serial, os.environ.get("CUDA_VISIBLE_DEVICES", "-")),
    "junk": lambda _, __: b"\0\0\0\5hello",
}


def option(name: str) -> Path | None:
    """Return the value of a command-line option."""
    return Path(sys.argv[sys.argv.index(name) + 1]) if name in sys.argv else None


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Do as told until the runner is gone."""
    if (starts := option("--starts")) is not None:
        with starts.open("ab") as file:
            file.write(b".")
    setup = receive_request(requests)
    assert isinstance(setup, Setup)
    now.add("gpu" if setup.settings["gpu"] else "cpu")
    if (flag := option("--no-gpu-if")) is not None and flag.exists() and "gpu" in now:
        answers.write(frame(Unfit("the GPU does not answer")))
        answers.flush()
        return
    if (flag := option("--die-if")) is not None and flag.exists():
        print("cannot open libengine.so", file=sys.stderr)
        os._exit(7)
    if (flag := option("--unfit-if")) is not None and flag.exists():
        answers.write(frame(Unfit("the models are missing")))
        answers.flush()
        return
    if (flag := option("--hold")) is not None:
        while not flag.exists():
            time.sleep(0.005)
    answers.write(frame(Ready("fake", "1")))
    answers.flush()
    while isinstance(request := receive_request(requests), Read | ReadMany):
        if isinstance(request, ReadMany):
            answers.write(together(request))
            answers.flush()
            continue
        word, _, argument = request.data.decode().partition(":")
        now.discard("thrifty")
        now.update({"thrifty"} if request.thrifty else ())
        answers.write(BEHAVIOURS[word](request.serial, argument))
        answers.flush()


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
