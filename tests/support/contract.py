"""The contract that every `Service` keeps, as one check that each service's tests call."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from detectsched.lifecycle import Service


async def check_service_contract(service: Service, is_running: Callable[[], bool], *, rounds: int = 20) -> None:
    """Drive a service through every order of start and stop, and leave it stopped.

    Args:
        service: not started yet.
        is_running: says whether the thing itself works, not whether the service believes so.
        rounds: random sequences of overlapping calls.
    """
    await service.stop()
    assert not is_running(), "stopped before it was started, and runs"
    for _ in range(2):
        await service.start()
        await service.start()
        assert is_running(), "started twice, and does not run"
        await service.stop()
        assert not is_running(), "one stop does not end what two starts began"
        await service.stop()
        assert not is_running()
    pick = random.Random(7)  # noqa: S311 - a repeatable sequence
    for _ in range(rounds):
        calls = pick.choices(("start", "stop"), k=pick.randint(2, 6))
        await asyncio.gather(*(getattr(service, call)() for call in calls))
        assert is_running() is (calls[-1] == "start"), f"calls that overlap take effect in their order: {calls}"
    await service.stop()
    broken_off = asyncio.create_task(service.start())
    await asyncio.sleep(0)
    broken_off.cancel()
    await asyncio.wait([broken_off])
    await service.stop()
    assert not is_running(), "a start that was broken off left something behind"
