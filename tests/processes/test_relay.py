"""Commands on their way to a webhook while processes die: at least once, under one id, never under two."""

from __future__ import annotations

from collections import Counter
from contextlib import AsyncExitStack
from typing import Any

import pytest

from chaos.cluster import WEBHOOKS
from detectsched.clock import utc_now
from detectsched.db.word_lists import publish
from detectsched.settings import Settings
from detectsched.task import DEFAULT_TENANT, TaskState
from detectsched.wordlist import Word
from tests.support import receiver as play
from tests.support.actors import new_text
from tests.support.outbox import Outbox
from tests.support.processes import daemon
from tests.support.receiver import receiving
from tests.support.system import System, opened
from tests.support.waiting import wait_until


@pytest.fixture
def lax(settings: Settings) -> Settings:
    """Give settings under which webhooks may be on this machine, and a dead dispatcher's claims end soon."""
    return settings.model_copy(update={"webhooks": WEBHOOKS})


async def count(system: System, statement: str) -> Any:
    """Return what a statement counts."""
    async with system.ledger.connection() as connection:
        return await connection.fetchval(statement)


async def test_a_dispatcher_killed_between_send_and_mark(lax: Settings) -> None:
    """The receiver has the message, nobody has noted it: it is sent again under the same id, with the same bytes."""
    async with AsyncExitStack() as stack:
        system = await stack.enter_async_context(opened(lax))
        receiver = await stack.enter_async_context(receiving())
        outbox = Outbox(system.ledger)
        _, secret = await outbox.webhook(receiver.url)
        receiver.answers = [play.hang]
        first = await stack.enter_async_context(daemon(lax, "dispatcher"))
        await wait_until(system.queue.is_open, "the gate open", 30)
        [command] = await outbox.write()
        await wait_until(lambda: len(receiver.received) == 1, "the message under way")
        await first.kill()
        [row] = await outbox.deliveries()
        assert (row["state"], row["attempts"]) == ("pending", 1)
        await stack.enter_async_context(daemon(lax, "dispatcher"))
        await wait_until(lambda: len(receiver.received) == 2, "the message sent again", 30)

        async def delivered() -> bool:
            return [each["state"] for each in await outbox.deliveries()] == ["delivered"]

        await wait_until(delivered, "its mark")
        assert {request.message_id for request in receiver.received} == {str(command)}
        assert receiver.received[0].body == receiver.received[1].body
        assert all(request.is_signed_by(secret, now=utc_now().timestamp()) for request in receiver.received)


async def test_every_hit_is_told_under_one_id(lax: Settings) -> None:
    """Runners and dispatchers are killed with -9 while tasks with hits flow: one command each, each told."""
    total = 300
    async with AsyncExitStack() as stack:
        system = await stack.enter_async_context(opened(lax))
        receiver = await stack.enter_async_context(receiving())
        outbox = Outbox(system.ledger)
        await outbox.policy(message="${word}")
        await outbox.webhook(receiver.url)
        words = [Word("secret", "leak", 3)]
        await publish(system.ledger, DEFAULT_TENANT, "words", words, name="W", is_default=True, by="test")
        dispatcher = await stack.enter_async_context(daemon(lax, "dispatcher"))
        await wait_until(system.queue.is_open, "the gate open", 30)
        runner = await stack.enter_async_context(daemon(lax, "runner", "--lane", "text"))
        ids = await system.submit(*(new_text(n % 9, f"a secret {n}") for n in range(total)))
        await wait_until(lambda: len(receiver.received) >= 20, "the first messages", 30)
        await runner.kill()
        await dispatcher.kill()
        await stack.enter_async_context(daemon(lax, "dispatcher"))
        await stack.enter_async_context(daemon(lax, "runner", "--lane", "text"))
        assert set(await system.wait_for_all(ids, 60)) == {TaskState.SUCCEEDED}

        async def all_told() -> bool:
            undelivered = "SELECT count(*) FROM webhook_delivery WHERE state <> 'delivered'"
            return bool(await count(system, undelivered) == 0)

        await wait_until(all_told, "every message delivered", 60)
        assert await count(system, "SELECT count(*) FROM command") == total
        assert await count(system, "SELECT count(*) FROM audit_log WHERE action = 'hit'") == total
        told = Counter((request.document["data"]["task_id"], request.message_id) for request in receiver.received)
        assert {task_id for task_id, _ in told} == set(map(str, ids))
        assert len(told) == total, "a task's command was told under two ids"
        bodies = {(request.message_id, request.body) for request in receiver.received}
        assert len(bodies) == total, "one id, two bodies"
