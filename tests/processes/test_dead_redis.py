"""A Redis that is gone for a while costs each process at most a line a second (F34), and ends none."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Final

import httpx
from pydantic import SecretStr

from detectsched.clock import monotonic
from detectsched.embedded.places import free_port
from detectsched.settings import ApiSettings, Settings
from tests.api.rig import bearer, rigged
from tests.api.test_submit import text
from tests.support.processes import Daemon, daemon
from tests.support.stores import redis_for_tests
from tests.support.waiting import wait_until

OUTAGE_SECONDS: Final = 4.0
COMMANDS: Final = (("api",), ("dispatcher",), ("runner", "--lane", "text"))


def said(process: Daemon) -> list[tuple[str, datetime]]:
    """Return what a process has said, and when."""
    lines = [json.loads(line) for line in process.output.splitlines()]
    return [(line["event"], datetime.fromisoformat(line["timestamp"])) for line in lines]


async def test_a_dead_redis_costs_each_process_a_line_a_second(settings: Settings, tmp_path: Path) -> None:
    """Loops that wait for it and requests that are refused alike; with Redis back, all go on."""
    server = redis_for_tests(tmp_path / "redis")
    await server.start()
    own = settings.redis.model_copy(update={"url": SecretStr(server.url)})
    settings = settings.model_copy(update={"redis": own, "api": ApiSettings(port=free_port())})
    async with AsyncExitStack() as stack:
        stack.push_async_callback(server.stop)
        rig = await stack.enter_async_context(rigged(settings))
        processes = [await stack.enter_async_context(daemon(settings, *command)) for command in COMMANDS]
        for process in processes:
            await process.wait_for("started")
        url = f"http://127.0.0.1:{settings.api.port}"
        client = await stack.enter_async_context(httpx.AsyncClient(base_url=url, headers=bearer(rig.keys["acme"])))
        assert (await client.post("/api/ocr/text", json=text())).status_code == 202

        async def at_rest() -> bool:
            level = await rig.queue.level(settings.lanes)
            return not level["total_pending"] and not level["outstanding:text"]

        await wait_until(at_rest, "the task done: whoever has one in hand tells of it as well", 20)
        before = [len(said(process)) for process in processes]
        await server.kill()
        refused, until = 0, monotonic() + OUTAGE_SECONDS
        while monotonic() < until:
            refused += (await client.post("/api/ocr/text", json=text())).status_code == 503
        lines = [said(process)[first:] for process, first in zip(processes, before, strict=True)]
        await server.start()

        async def taken() -> bool:
            return (await client.post("/api/ocr/text", json=text())).status_code == 202

        await wait_until(taken, "a task accepted again", 20)
        assert refused > 20
        for process, during in zip(processes, lines, strict=True):
            assert process.process.returncode is None
            assert during
            moments = [moment for _, moment in during]
            assert all((later - earlier).total_seconds() > 0.9 for earlier, later in pairwise(moments)), process.output
