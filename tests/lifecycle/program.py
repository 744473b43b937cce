"""A process made of services that tell what happens to them: ``python -m tests.lifecycle.program MISBEHAVIOUR``."""

from __future__ import annotations

import asyncio
import sys
import time

from detectsched.errors import ConfigurationError
from detectsched.lifecycle import Service, run_services


def say(text: str) -> None:
    """Write a line for the test that watches."""
    print(text, flush=True)


class Teller(Service):
    """Says when it starts and stops; misbehaves on demand."""

    def __init__(self, letter: str, misbehaviour: str) -> None:
        self._letter = letter
        self._misbehaviour = misbehaviour
        self._die = asyncio.Event()

    @property
    def name(self) -> str:
        """Its letter."""
        return self._letter

    async def start(self) -> None:
        """Say so."""
        say(f"start {self._letter}")
        match self._misbehaviour:
            case "slow-start":
                say("starting slowly")
                await asyncio.sleep(600)
            case "no-start":
                raise ConfigurationError(f"{self._letter} lacks a setting")
            case "die":
                asyncio.get_running_loop().call_later(0.05, self._die.set)

    async def stop(self) -> None:
        """Say so."""
        say(f"stop {self._letter}")
        match self._misbehaviour:
            case "slow-stop":
                await asyncio.sleep(600)
            case "stuck-stop":
                time.sleep(600)  # noqa: ASYNC251 - the loop is stuck, as in a long call into C
            case "no-stop":
                raise RuntimeError("cannot stop")

    async def wait(self) -> None:
        """Wait for its death."""
        await self._die.wait()
        raise RuntimeError(f"{self._letter} is dead")


async def main() -> int:
    """Run a, b and c, of which b misbehaves."""
    misbehaviour = sys.argv[1]
    stop = asyncio.Event()
    services = [Teller("a", ""), Teller("b", misbehaviour), Teller("c", "")]
    if misbehaviour == "from-inside":
        asyncio.get_running_loop().call_later(0.05, stop.set)
    return await run_services(services, ready=lambda: say("ready"), stop=stop)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
