"""What the client and the fault injector saw, one JSON object a line: the half of the evidence that no store can forge.

Times are seconds since the epoch, taken once and carried on by the monotonic clock; all processes of a run share one
machine, so that they can be compared with PostgreSQL's.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from detectsched.clock import monotonic


class Run(msgspec.Struct, frozen=True, tag="run"):
    """First of all: what the run was, and what it promised to meet (names of faults and of sights)."""

    at: float
    seed: int
    lease: float
    sweep: float
    quantum: float
    slots: int
    expects: tuple[str, ...] = ()


class Asked(msgspec.Struct, frozen=True, tag="asked"):
    """A request to accept a task left the client; several may carry one ``key``."""

    at: float
    key: str
    tenant: str
    object: str | None = None


class Accepted(msgspec.Struct, frozen=True, tag="accepted"):
    """The answer to a request: this task."""

    at: float
    key: str
    tenant: str
    task: str
    object: str | None = None


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """The answer to a request: not now (429, 503), or never (the others)."""

    at: float
    key: str
    status: int


class Unknown(msgspec.Struct, frozen=True, tag="unknown"):
    """No answer came: it may have been accepted or not."""

    at: float
    key: str
    why: str


class Fault(msgspec.Struct, frozen=True, tag="fault"):
    """A fault began, or was healed. ``blinds`` says that the API cannot be ready meanwhile."""

    at: float
    name: str
    phase: Literal["begin", "end"]
    target: str = ""
    blinds: bool = False


class Sample(msgspec.Struct, frozen=True, tag="sample"):
    """The counters of waiting tasks at one instant."""

    at: float
    counters: dict[str, int]


class Probe(msgspec.Struct, frozen=True, tag="probe"):
    """Whether the API said that it is ready."""

    at: float
    ready: bool


class Seen(msgspec.Struct, frozen=True, tag="seen"):
    """Something that a run must have met to be worth anything, found in the logs of the processes."""

    at: float
    what: str
    count: int


class Told(msgspec.Struct, frozen=True, tag="told"):
    """A receiver of webhooks was told: the message's id, and the hash of its body."""

    at: float
    message: str
    digest: str


class Usage(msgspec.Struct, frozen=True, tag="usage"):
    """What a process or a store used: at rest before the load, and at rest after it."""

    at: float
    when: Literal["start", "end"]
    who: str
    amounts: dict[str, float]


Record: TypeAlias = Run | Asked | Accepted | Refused | Unknown | Fault | Sample | Probe | Seen | Told | Usage

_decoder = msgspec.json.Decoder(Record)
_encode = msgspec.json.Encoder().encode


class Journal:
    """Written line by line, each flushed at once: a killed run leaves a readable journal."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("ab")
        self._offset = time.time() - monotonic()

    def now(self) -> float:
        """Return the time that records carry."""
        return self._offset + monotonic()

    def write(self, record: Record) -> None:
        """Append one record."""
        self._file.write(_encode(record) + b"\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_journal(path: Path) -> Iterator[Record]:
    """Yield the records of a journal, in the order in which they were written.

    Raises:
        msgspec.DecodeError: a line is no record.
    """
    with path.open("rb") as lines:
        for line in lines:
            yield _decoder.decode(line)
