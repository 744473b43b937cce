"""What follows a hit, and the end of a task: written with the result, or not at all."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from detectsched.attempt import Ending
from detectsched.command import CommandKind, command_id
from detectsched.db.accept import accept
from detectsched.db.connection import Ledger
from detectsched.db.results import end
from detectsched.db.starts import start
from detectsched.db.transitions import cancel, expire, expire_due, give_up, recover
from detectsched.task import DEFAULT_TENANT, Delivery, TaskError, TaskState
from tests.support.actors import mac_number, new_text
from tests.support.outbox import Outbox, found

CALLBACK = "https://hooks.example.com/done?key=1"
BROKEN = TaskError("engine_error", "it broke")


@pytest.fixture
def outbox(ledger: Ledger) -> Outbox:
    """Give the outbox of the default tenant."""
    return Outbox(ledger)


async def add_tenant(outbox: Outbox, name: str) -> None:
    """Make another tenant."""
    await outbox.execute("INSERT INTO tenant (id, name) VALUES ($1, $1)", name)


async def test_a_hit_is_followed_by_a_command_and_an_entry(outbox: Outbox) -> None:
    """In the audit log: who, what, which lists, which commands, whose request."""
    await outbox.policy(message="level $level: ${word}", payload={"a": ["${category}", 1]}, kind=CommandKind.CUSTOM)
    started = await outbox.begin(4)
    task_id = started.delivery.task_id
    assert await outbox.finish(started, found(1, 3, 2))
    [command] = await outbox.rows("command")
    assert command["id"] == command_id(task_id, CommandKind.CUSTOM, "tell")
    assert (command["task_id"], command["mac"], command["object"]) == (task_id, mac_number(4), None)
    assert (command["kind"], command["policy"], command["level"], command["state"]) == ("custom", "tell", 3, "pending")
    assert command["body"] == {
        "message": "level 3: word3",
        "payload": {"a": ["fraud", 1]},
        "hit_count": 3,
        "categories": ["fraud"],
    }
    entry = (await outbox.rows("audit_log"))[-1]
    assert (entry["tenant"], entry["actor"], entry["action"], entry["subject"], entry["request_id"]) == (
        DEFAULT_TENANT,
        "runner r1",
        "hit",
        str(task_id),
        "request-7",
    )
    assert entry["detail"] == {
        "mac": mac_number(4),
        "object": None,
        "hit_count": 3,
        "top_level": 3,
        "lists": [{"id": "fraud", "version": 3}],
        "commands": [str(command["id"])],
    }


async def test_policies_choose_by_level_and_category(outbox: Outbox) -> None:
    """Each one whose range holds the gravest hit of its categories; disabled ones and those of others do not count."""
    await outbox.policy("all")
    await outbox.policy("grave", CommandKind.LOCK_SCREEN, min_level=3)
    await outbox.policy("light", max_level=2)
    await outbox.policy("violence", categories=("violence",))
    await outbox.policy("off", enabled=False)
    await add_tenant(outbox, "other")
    await Outbox(outbox.ledger, "other").policy("stranger")
    for levels, wanted in (((1,), {"all", "light"}), ((1, 3), {"all", "grave"}), ((2,), {"all", "light"})):
        started = await outbox.begin()
        await outbox.finish(started, found(*levels))
        rows = [row for row in await outbox.rows("command") if row["task_id"] == started.delivery.task_id]
        assert {row["policy"] for row in rows} == wanted, levels
    started = await outbox.begin()
    await outbox.finish(started, found(9, category="violence"))
    rows = [row for row in await outbox.rows("command") if row["task_id"] == started.delivery.task_id]
    assert {row["policy"] for row in rows} == {"all", "grave", "violence"}


async def test_no_hit_no_command(outbox: Outbox) -> None:
    """And no entry; without a policy a hit has its entry all the same."""
    await outbox.finish(await outbox.begin())
    assert await outbox.rows("audit_log") == []
    await outbox.finish(await outbox.begin(), found(5))
    assert await outbox.rows("command") == []
    [entry] = await outbox.rows("audit_log")
    assert entry["detail"]["commands"] == []


async def test_a_fenced_ending_writes_nothing(outbox: Outbox) -> None:
    """Neither command nor entry nor callback; the one that counts writes each once."""
    await outbox.policy()
    await outbox.webhook("https://hooks.example.com/")
    first = await outbox.begin(callback_url=CALLBACK)
    [second] = await start(outbox.ledger, [replace(first.delivery, number=2)], runner="r2")
    assert not await outbox.finish(first, found(5))
    assert await outbox.rows("command") == []
    assert await outbox.deliveries() == []
    assert [row["action"] for row in await outbox.rows("audit_log")] == ["put_command_policy", "create_webhook"]
    assert await outbox.finish(second, found(5))  # type: ignore[arg-type]
    assert not await outbox.finish(second, found(5))  # type: ignore[arg-type]
    assert len(await outbox.rows("command")) == 1
    assert sorted(row["event"] for row in await outbox.deliveries()) == ["command.notify", "task.succeeded"]
    assert [row["action"] for row in await outbox.rows("audit_log")][2:] == ["hit"]


async def test_endings_in_one_statement_keep_to_their_own(outbox: Outbox) -> None:
    """Of two tasks that end together, one fenced off, the other's commands are written."""
    await outbox.policy()
    mine, lost = await outbox.begin(1), await outbox.begin(2)
    endings = [
        Ending(one.delivery.task_id, one.tenant, fence, TaskState.SUCCEEDED, detection=found(1))
        for one, fence in ((mine, mine.fence), (lost, lost.fence + 1))
    ]
    assert await end(outbox.ledger, endings) == [True, False]
    assert [row["task_id"] for row in await outbox.rows("command")] == [mine.delivery.task_id]


async def test_webhooks_that_want_it_are_told(outbox: Outbox) -> None:
    """Those of the tenant that are enabled and subscribed, with one id for all of them."""
    await outbox.policy()
    wanted, _ = await outbox.webhook("https://a.example.com/", "command.notify", "command.custom")
    also, _ = await outbox.webhook("https://b.example.com/")
    await outbox.webhook("https://c.example.com/", "command.lock_screen")
    off, _ = await outbox.webhook("https://d.example.com/")
    await outbox.execute("UPDATE webhook SET enabled = false WHERE id = $1", off)
    await add_tenant(outbox, "other")
    await Outbox(outbox.ledger, "other").webhook("https://e.example.com/")
    started = await outbox.begin(object="door 7")
    await outbox.finish(started, found(2))
    [command] = await outbox.rows("command")
    rows = await outbox.deliveries()
    assert {row["webhook_id"] for row in rows} == {wanted, also}
    assert {row["message_id"] for row in rows} == {command["id"]}
    assert rows[0]["body"] == rows[1]["body"]
    body = rows[0]["body"]
    assert body["type"] == "command.notify"
    assert body["timestamp"] == f"{command['created_at']:%Y-%m-%dT%H:%M:%S.%f}Z"
    assert body["data"] == {
        "command_id": str(command["id"]),
        "task_id": str(started.delivery.task_id),
        "kind": "notify",
        "policy": "tell",
        "level": 2,
        "mac": None,
        "object": "door 7",
        "message": "",
        "payload": {},
        "hit_count": 1,
        "categories": ["fraud"],
    }


# Callbacks ------------------------------------------------------------------------------------------------------------


async def queued(outbox: Outbox) -> Delivery:
    """Accept a task with a callback; return a delivery of it."""
    [accepted] = await accept(outbox.ledger, [replace(new_text(1), callback_url=CALLBACK)])
    return Delivery(accepted.task.id, 1, "text", "1-1")


async def told(outbox: Outbox) -> dict[str, object]:
    """Return what the one callback is told."""
    [row] = await outbox.deliveries()
    assert (row["url"], row["webhook_id"]) == (CALLBACK, None)
    assert row["channel"] == f"callback/{DEFAULT_TENANT}/hooks.example.com"
    assert row["message_id"] == row["task_id"]
    assert row["event"] == row["body"]["type"] == f"task.{row['body']['data']['state']}"
    data: dict[str, object] = row["body"]["data"]
    return data


@pytest.mark.parametrize(
    "state", [TaskState.SUCCEEDED, TaskState.FAILED, TaskState.DEAD, TaskState.CANCELLED], ids=lambda state: state.value
)
async def test_a_runner_ends_it(outbox: Outbox, state: TaskState) -> None:
    """Its callback is told, with what was found or what went wrong."""
    started = await outbox.begin(callback_url=CALLBACK)
    succeeded = state is TaskState.SUCCEEDED
    await outbox.finish(
        started, found(2, 4) if succeeded else None, state=state, error=None if succeeded else BROKEN, spends=True
    )
    assert await told(outbox) == {
        "task_id": str(started.delivery.task_id),
        "state": state.value,
        "kind": "text",
        "lane": "text",
        "mac": mac_number(1),
        "object": None,
        "hit_count": 2 if succeeded else 0,
        "top_level": 4 if succeeded else 0,
        "error": None if succeeded else {"reason": "engine_error", "detail": "it broke"},
    }


async def test_a_task_that_waits_again_tells_nobody(outbox: Outbox) -> None:
    """It has not ended; a task without a callback tells nobody either."""
    started = await outbox.begin(callback_url=CALLBACK)
    await outbox.finish(started, state=TaskState.QUEUED, error=BROKEN, spends=True)
    await outbox.finish(await outbox.begin(2), found(1))
    assert await outbox.deliveries() == []


async def test_cancelled_while_it_waits(outbox: Outbox) -> None:
    """By its tenant."""
    delivery = await queued(outbox)
    assert await cancel(outbox.ledger, DEFAULT_TENANT, delivery.task_id) is TaskState.CANCELLED
    assert (await told(outbox))["state"] == "cancelled"


async def test_expired(outbox: Outbox) -> None:
    """Found by the sweep, decided by a script, or noticed at the start."""
    for number in range(3):
        delivery = await queued(outbox)
        await outbox.execute("UPDATE task SET expires_at = now() WHERE id = $1", delivery.task_id)
        match number:
            case 0:
                assert await expire_due(outbox.ledger, limit=10) == [delivery.task_id]
            case 1:
                await expire(outbox.ledger, [delivery.task_id])
            case _:
                await start(outbox.ledger, [delivery], runner="r1")
        data = await told(outbox)
        assert data["state"] == "expired"
        assert data["error"] == {"reason": "expired", "detail": "not started within its time to live"}
        await outbox.execute("DELETE FROM webhook_delivery")


async def test_given_up(outbox: Outbox) -> None:
    """For want of a runner."""
    delivery = await queued(outbox)
    await give_up(outbox.ledger, [delivery.task_id], reason="no_runner", detail="none came")
    assert (await told(outbox))["error"] == {"reason": "no_runner", "detail": "none came"}


async def test_lost_with_its_runner(outbox: Outbox) -> None:
    """For the last time; not while it is tried again."""
    started = await outbox.begin(callback_url=CALLBACK)
    await recover(outbox.ledger, [(started.delivery.task_id, 1)], max_attempts=2)
    assert await outbox.deliveries() == []
    await start(outbox.ledger, [replace(started.delivery, number=2)], runner="r1")
    await recover(outbox.ledger, [(started.delivery.task_id, 2)], max_attempts=2)
    assert (await told(outbox))["state"] == "dead"


async def test_many_end_at_once(outbox: Outbox) -> None:
    """Each tells its own callback once, whoever else tries to end it."""
    started = [await outbox.begin(number, callback_url=CALLBACK) for number in range(1, 21)]
    await asyncio.gather(*(outbox.finish(one, found(1)) for one in started for _ in range(2)))
    rows = await outbox.deliveries()
    assert sorted(row["task_id"] for row in rows) == sorted(one.delivery.task_id for one in started)
