"""Started twice, stopped twice, stopped before started, and both at once: over real services of each kind."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

from detectsched.embedded.servers import EmbeddedValkey
from detectsched.lifecycle import Loop
from tests.support.contract import check_service_contract


class Turning(Loop):
    """Counts the runs of itself that are alive."""

    def __init__(self) -> None:
        super().__init__(interval_seconds=0.001)
        self.alive = 0

    async def run_once(self) -> None:
        """Take a little while, as a query would."""
        self.alive += 1
        try:
            await asyncio.sleep(0)
        finally:
            self.alive -= 1

    def is_running(self) -> bool:
        """Whether a task of that name is there."""
        found = [task for task in asyncio.all_tasks() if task.get_name() == self.name and not task.done()]
        assert len(found) <= 1, "two runs of one loop at the same time"
        return bool(found)


class Waiting(Turning):
    """A loop that waits elsewhere than on its wake-up, like a blocking read."""

    async def pause(self) -> None:
        """Wait for what never comes."""
        await asyncio.Event().wait()

    async def interrupt(self, task: asyncio.Task[None]) -> None:
        """Break the read off."""
        task.cancel()


async def test_a_loop_keeps_the_contract() -> None:
    """The plain loop."""
    loop = Turning()
    await check_service_contract(loop, loop.is_running, rounds=200)
    assert loop.alive == 0


async def test_a_loop_that_is_interrupted_keeps_the_contract() -> None:
    """A loop that must be cancelled out of its pause."""
    loop = Waiting()
    await check_service_contract(loop, loop.is_running, rounds=200)


async def test_an_embedded_server_keeps_the_contract(tmp_path: Path) -> None:
    """A real process: it runs while somebody listens on its socket."""
    server = EmbeddedValkey(tmp_path / "valkey", durable=False)

    def listens() -> bool:
        with socket.socket(socket.AF_UNIX) as client:
            return client.connect_ex(str(server.data / "valkey.sock")) == 0

    await check_service_contract(server, listens, rounds=3)
