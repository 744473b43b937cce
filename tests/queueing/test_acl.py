"""Bug report 86 (redis#10503): scripts that touch undeclared keys, run by a user who may touch ours alone.

The rule is the one that docs/operations.md tells operators to set, word by word.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
import redis.asyncio
from pydantic import SecretStr
from redis.exceptions import NoPermissionError

import detectsched
from detectsched.queueing.fitness import require_fit
from detectsched.settings import RedisSettings, Settings
from detectsched.task import TaskState
from tests.queueing.test_lost_replies import CASES, Case
from tests.support.actors import Bench, FakeTime, device_task, new_text, object_task
from tests.support.system import dispatching, runner
from tests.support.waiting import wait_until

_PAGE: Final = Path(__file__).parents[2] / "docs" / "operations.md"
USER: Final = "detectsched"


def documented_rule() -> list[str]:
    """Return the words of the documented ``ACL SETUSER``, after the name of the user."""
    rule: str
    [rule] = re.findall(rf"^ACL SETUSER {USER} (.*?)^```", _PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return rule.replace("\\\n", " ").split()


def administrator(redis_url: str) -> Any:
    """Return a client that may do everything; its own types know few of its commands."""
    return redis.asyncio.from_url(redis_url)


@pytest.fixture
async def limited(redis_url: str) -> AsyncIterator[RedisSettings]:
    """Speak as the documented user."""
    async with administrator(redis_url) as admin:
        password = "secret"
        rule = [word if not word.startswith(">") else f">{password}" for word in documented_rule()]
        await admin.execute_command("ACL", "SETUSER", USER, "reset", *rule)
        await admin.execute_command("ACL", "LOG", "RESET")
        scheme, rest = redis_url.split("//", 1)
        yield RedisSettings(url=SecretStr(f"{scheme}//{USER}:{password}@{rest}"))
        await admin.execute_command("ACL", "DELUSER", USER)


async def refused(redis_url: str) -> list[Any]:
    """Return what the server has refused somebody: also what was taken for an absence."""
    async with administrator(redis_url) as admin:
        return list(await admin.execute_command("ACL", "LOG"))


@pytest.mark.parametrize("name", CASES)
async def test_86_every_script_runs_under_the_documented_rule(
    limited: RedisSettings, redis_url: str, name: str
) -> None:
    """No script needs another command, or a key without our prefix."""
    prepare, act = CASES[name]
    now = FakeTime()
    tasks = [device_task(1, now), device_task(1, now), object_task("door", now), object_task("door", now)]
    case = Case(await Bench.opened(Settings(redis=limited)), tasks)
    try:
        await prepare(case)
        await act(case)
        assert await refused(redis_url) == []
    finally:
        await case.bench.clients.close()


def test_86_every_command_that_a_script_names_is_in_the_rule() -> None:
    """Also those that only some settings and states lead to."""
    scripts = Path(detectsched.__file__).parent.joinpath("queueing", "lua").rglob("*.lua")
    first = [argument for script in scripts for argument in re.findall(r"redis\.p?call\(([^,)]*)", script.read_text())]
    named = {command.lower() for argument in first for command in re.findall(r"'([A-Z]+)'", argument)}
    assert {"rpop", "lpop", "hset", "xadd"} <= named
    allowed = {word.removeprefix("+").split("|")[0] for word in documented_rule() if word.startswith("+")}
    assert named <= allowed


async def test_86_the_rule_forbids_the_rest(limited: RedisSettings) -> None:
    """Neither others' keys nor the administration of the server."""
    bench = await Bench.opened(Settings(redis=limited))
    try:
        await require_fit(bench.clients)
        denied: list[tuple[Any, ...]] = [("GET", "another"), ("FLUSHALL",), ("CONFIG", "GET", "*"), ("KEYS", "*")]
        for command in denied:
            with pytest.raises(NoPermissionError):
                await bench.clients.commands.execute_command(*command)
    finally:
        await bench.clients.close()


async def test_86_a_system_lives_under_the_rule(limited: RedisSettings, settings: Settings, redis_url: str) -> None:
    """Tasks end, and a loss of all data is healed, with no other right."""
    own = settings.model_copy(update={"redis": limited})
    async with dispatching(own) as system, runner(own, "text"):
        first = await system.submit(*(new_text(number) for number in range(5)))
        assert await system.wait_for_all(first) == [TaskState.SUCCEEDED] * 5
        async with administrator(redis_url) as admin:
            await admin.flushall()
        await wait_until(system.queue.is_open, "the gate open again")
        after = await system.submit(new_text(1))
        assert await system.wait_for_all(after) == [TaskState.SUCCEEDED]
        await system.wait_until_at_rest()
        assert await refused(redis_url) == []
