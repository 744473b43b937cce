"""What the scripts do to the schedule, read off the stream of commands at the server."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import redis.asyncio

from detectsched.embedded.servers import EmbeddedValkey
from detectsched.simulate.workload import AtOnce, AtRandom, DeviceClass, Lane, Outage, RunnerClass, Workload
from tests.simulate.conftest import Run

_END = "end of the recording"


@dataclass
class Call:
    """One run of a script: the members it wrote to schedules, and the queues that it did something with."""

    scheduled: Counter[str] = field(default_factory=Counter)
    touched: set[str] = field(default_factory=set)


class Recording:
    """Groups what MONITOR shows by the script that did it."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def take(self, words: list[str]) -> None:
        """Note one command."""
        name = words[0].upper()
        if name in {"EVALSHA", "EVAL"}:
            self.calls.append(Call())
        elif not self.calls:
            return
        elif name == "ZADD" and ":schedule:" in words[1]:
            member = words[-1]
            self.calls[-1].scheduled[member] += 1
        elif name in {"RPUSH", "LPOP", "RPOP"} and ":mac:queue:" in words[1]:
            self.calls[-1].touched |= _owners(words[1].partition(":mac:queue:")[2])
        elif name == "HINCRBY" and ":mac:meta:" in words[1]:
            self.calls[-1].touched |= _owners(words[1].partition(":mac:meta:")[2])
        elif name in {"ZREM", "SREM"} and (words[1].endswith("}:deferred") or ":unserved:" in words[1]):
            # Back from a back-off (deferred), or from want of a runner (unserved).
            self.calls[-1].touched |= _owners(words[2].partition("mac:")[2])


def _owners(rest: str) -> set[str]:
    """Return the queue and the tenant that a key belongs to."""
    return {f"mac:{rest}", rest.partition(":")[0]}


async def _record(url: str, recording: Recording, ready: asyncio.Event) -> None:
    async with redis.asyncio.from_url(url, decode_responses=True) as client, client.monitor() as monitor:
        ready.set()
        while True:
            command: dict[str, Any] = await monitor.next_command()
            if _END in command["command"]:
                return
            recording.take(command["command"].split(" "))


async def test_no_member_of_a_schedule_is_rescored_by_time_passing(redis_server: EmbeddedValkey, run: Run) -> None:
    """Every score that is written belongs to a queue, or its tenant, with which that very script did something.

    Waits pass the starvation hint and the original's cap meanwhile, runners die and come back, back-offs end.
    """
    workload = Workload(
        name="test",
        lanes={"text": Lane(seconds_per_cost=20.0, noise=0.3)},
        runners=(RunnerClass(count=2, slots={"text": 1}, outages=(Outage(at_seconds=300, for_seconds=200),)),),
        classes=(
            DeviceClass(name="flood", arrivals=AtOnce(tasks=60)),
            DeviceClass(name="quiet", devices=20, tenant="other", arrivals=AtRandom(tasks=2, until_seconds=1500)),
        ),
    )
    recording, ready = Recording(), asyncio.Event()
    recorder = asyncio.create_task(_record(redis_server.url, recording, ready))
    await ready.wait()
    comparison = await run(workload)
    async with redis.asyncio.from_url(redis_server.url) as client:
        await client.echo(_END)
    await recorder
    assert comparison.runs[0].figures.total.done == 100
    assert comparison.runs[0].figures.total.wait is not None
    assert comparison.runs[0].figures.total.wait.longest > 600
    writes = sum(call.scheduled.total() for call in recording.calls)
    assert writes > 100, "nothing was recorded"
    for call in recording.calls:
        assert set(call.scheduled) <= call.touched, "re-scored though nothing happened to it"
    assert writes <= 12 * len(comparison.tasks)
