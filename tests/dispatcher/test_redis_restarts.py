"""Bug reports 49 and 55 (celery#8030, dramatiq#207): reconnected after a restart, and consuming nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from pydantic import SecretStr

from detectsched.clock import monotonic
from detectsched.errors import StoreUnavailable
from detectsched.queueing import connection
from detectsched.settings import Settings
from detectsched.task import TaskState
from tests.support.actors import new_text
from tests.support.stores import redis_for_tests
from tests.support.system import System, dispatching, runner

RESTARTS: Final = 20
_WITHIN_SECONDS: Final = 10.0


async def submitted(system: System, number: int) -> None:
    """Accept a task; whether Redis has heard of it by now is left to the reconciler."""
    try:
        await system.submit(new_text(number))
    except StoreUnavailable:
        return


async def test_49_everything_consumes_again_after_each_of_twenty_restarts(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever waits for Redis at that moment finds the new server, which holds nothing, within ten seconds."""
    # The peace that a dead server is left in would be most of this test's time.
    monkeypatch.setattr(connection, "_CALM_SECONDS", 0.05)
    server = redis_for_tests(tmp_path / "redis")
    await server.start()
    try:
        own = settings.redis.model_copy(update={"url": SecretStr(server.url)})
        settings = settings.model_copy(update={"redis": own})
        async with dispatching(settings) as system, runner(settings, "text"):
            for number in range(RESTARTS):
                # Half of the times with something under way.
                await submitted(system, number)
                await (server.stop() if number % 2 else server.kill())
                await submitted(system, number)
                await server.start()
                began = monotonic()
                async with system.ledger.connection() as ledger:
                    accepted = [row["id"] for row in await ledger.fetch("SELECT id FROM task")]
                states = await system.wait_for_all(accepted, _WITHIN_SECONDS)
                assert set(states) == {TaskState.SUCCEEDED}
                assert monotonic() - began < _WITHIN_SECONDS
            assert len(accepted) == 2 * RESTARTS
            await system.wait_until_at_rest()
    finally:
        await server.stop()
