"""The relay against real receivers (reliability case F31): slow, failing, gone, hostile, and dispatchers that die."""

from __future__ import annotations

import asyncio
import base64

import pytest
import structlog
from pydantic import SecretStr

from detectsched.clock import utc_now
from detectsched.db.connection import Ledger
from detectsched.db.deliveries import DeliveryState, Mark, Totals, claim, mark, totals
from detectsched.db.notifications import WEBHOOK_CHANNEL, Notifications
from detectsched.db.webhooks import rotate_secret
from detectsched.dispatcher.daemon import dispatcher_services
from detectsched.dispatcher.relay import Relay
from detectsched.settings import EncryptionSettings, PostgresSettings, Settings
from detectsched.webhooks.signing import new_secret
from tests.dispatcher.relaying import CALM, LAX, state, turn
from tests.support import receiver as play
from tests.support.contract import check_service_contract
from tests.support.outbox import SOMEBODY, Outbox, canonical, found
from tests.support.receiver import Receiver, receiving
from tests.support.system import opened, running
from tests.support.waiting import wait_until


async def test_a_command_is_delivered_signed(outbox: Outbox, receiver: Receiver, relay: Relay) -> None:
    """Once, by its id, with the secret of its webhook, in the very bytes that were signed."""
    _, secret = await outbox.webhook(receiver.url)
    [command] = await outbox.write(message="礼品卡")
    assert await turn(relay) == 1
    assert await turn(relay) == 0
    [request] = receiver.received
    assert request.message_id == str(command)
    assert request.is_signed_by(secret, now=utc_now().timestamp())
    assert not request.is_signed_by(new_secret(), now=utc_now().timestamp())
    [row] = await outbox.deliveries()
    assert request.body == canonical(row["body"])
    assert request.document["data"]["message"] == "礼品卡"
    assert (row["state"], row["attempts"], row["last_status"], row["last_error"]) == ("delivered", 1, 204, None)
    assert row["done_at"] is not None
    assert await totals(outbox.ledger) == Totals(delivered=1)


async def test_a_callback_is_signed_by_the_tenant(outbox: Outbox, receiver: Receiver, relay: Relay) -> None:
    """By the secret of its callbacks, which is made at the first need and stays."""
    for number in (1, 2):
        started = await outbox.begin(number, callback_url=f"{receiver.url}?key=1")
        await outbox.finish(started, found(1))
        assert await turn(relay) == 1
    [kept] = await outbox.rows("webhook_secret")
    assert kept["webhook_id"] is None
    assert [request.path for request in receiver.received] == ["/hook?key=1"] * 2
    assert all(request.is_signed_by(kept["secret"], now=utc_now().timestamp()) for request in receiver.received)
    assert receiver.received[-1].message_id == str(started.delivery.task_id)
    assert receiver.received[-1].document["type"] == "task.succeeded"


async def test_two_secrets_while_one_replaces_the_other(outbox: Outbox, receiver: Receiver, relay: Relay) -> None:
    """Both sign until the old one retires."""
    webhook, old = await outbox.webhook(receiver.url)
    new = new_secret()
    assert await rotate_secret(outbox.ledger, outbox.tenant, webhook, new, overlap_seconds=60, by=SOMEBODY)
    await outbox.write()
    await turn(relay)
    now = utc_now().timestamp()
    assert receiver.received[0].is_signed_by(old, now=now)
    assert receiver.received[0].is_signed_by(new, now=now)
    await outbox.execute("UPDATE webhook_secret SET retires_at = now() WHERE retires_at IS NOT NULL")
    await outbox.write()
    await turn(relay)
    assert not receiver.received[1].is_signed_by(old, now=now)
    assert receiver.received[1].is_signed_by(new, now=now)


@pytest.mark.parametrize(
    ("answer", "error", "status"),
    [
        (play.status(500), "status_500", 500),
        (play.status(404), "status_404", 404),
        (play.reset, "connection_broken", None),
        (play.hang, "timeout", None),
        (play.drip, "timeout", None),
    ],
)
async def test_a_failure_is_tried_again_under_the_same_id(
    outbox: Outbox, receiver: Receiver, relay: Relay, answer: play.Answer, error: str, status: int | None
) -> None:
    """Later, with the same bytes, until it is taken."""
    await outbox.webhook(receiver.url)
    [command] = await outbox.write()
    receiver.answers = [answer]
    await turn(relay)
    [row] = await outbox.deliveries()
    assert (row["state"], row["last_error"], row["last_status"]) == ("pending", error, status)
    wait = (row["next_at"] - utc_now()).total_seconds()
    assert 1.0 < wait <= LAX.backoff_base_seconds
    assert await turn(relay) == 0, "it is not due"
    await outbox.make_due()
    assert await turn(relay) == 1
    assert [request.message_id for request in receiver.received] == [str(command)] * 2
    assert receiver.received[0].body == receiver.received[1].body
    [row] = await outbox.deliveries()
    assert (row["state"], row["attempts"], row["last_error"]) == ("delivered", 2, None)
    assert await totals(outbox.ledger) == Totals(delivered=1, failed=1)


async def test_a_receiver_that_is_down(outbox: Outbox, relay: Relay) -> None:
    """Is tried so often and no more; the message is kept as dead, and its count shows."""
    async with receiving() as gone:
        url = gone.url
    await outbox.webhook(url)
    await outbox.write()
    for _ in range(LAX.max_attempts):
        await outbox.make_due()
        assert await turn(relay) == 1
    await outbox.make_due()
    assert await turn(relay) == 0
    [row] = await outbox.deliveries()
    assert (row["state"], row["attempts"], row["last_error"]) == ("dead", 3, "connect_failed")
    assert await totals(outbox.ledger) == Totals(dead=1, failed=3)


async def test_retry_after_is_waited_for(outbox: Outbox, receiver: Receiver, relay: Relay) -> None:
    """As long as it says."""
    await outbox.webhook(receiver.url)
    await outbox.write()
    receiver.always = play.status(429, Retry_After="3000")
    await turn(relay)
    [row] = await outbox.deliveries()
    assert 2900 < (row["next_at"] - utc_now()).total_seconds() <= 3000


async def test_gone_disables_the_webhook(outbox: Outbox, receiver: Receiver, relay: Relay) -> None:
    """What waits for it is given up, the audit log tells, and nothing more is written for it."""
    webhook, _ = await outbox.webhook(receiver.url)
    await outbox.write(12)
    receiver.always = play.status(410)
    await turn(relay)
    assert await turn(relay) == 0
    assert {row["state"] for row in await outbox.deliveries()} == {"dead"}
    assert len(receiver.received) == LAX.max_in_flight_per_endpoint
    [row] = await outbox.rows("webhook")
    assert (row["enabled"], row["disabled_reason"]) == (False, "gone")
    entry = (await outbox.rows("audit_log"))[-1]
    assert (entry["actor"], entry["action"], entry["subject"]) == ("dispatcher relay", "disable_webhook", str(webhook))
    await outbox.write()
    assert len(await outbox.deliveries()) == 12


async def test_gone_ends_a_callback_alone(outbox: Outbox, receiver: Receiver, relay: Relay) -> None:
    """Other tasks of the same host go on."""
    receiver.answers = [play.status(410)]
    for number in (1, 2):
        await outbox.finish(await outbox.begin(number, callback_url=receiver.url))
        await turn(relay)
    assert [row["state"] for row in await outbox.deliveries()] == ["dead", "delivered"]


async def test_a_redirect_leads_nowhere(outbox: Outbox, receiver: Receiver, relay: Relay) -> None:
    """It counts as a failure."""
    async with receiving() as inside:
        receiver.always = play.status(302, Location=inside.url)
        await outbox.webhook(receiver.url)
        await outbox.write()
        await turn(relay)
        assert inside.received == []
    [row] = await outbox.deliveries()
    assert (row["state"], row["last_error"], row["last_status"]) == ("pending", "redirect", 302)


async def test_a_private_address_is_not_spoken_to(outbox: Outbox, receiver: Receiver, ledger: Ledger) -> None:
    """Whatever stands in the table: the guard looks at each attempt."""
    strict = Relay(ledger, LAX.model_copy(update={"allow_networks": ()}), tick_seconds=CALM)
    await outbox.webhook(f"http://localhost:{receiver.port}/")
    await outbox.write()
    await turn(strict)
    await strict.stop()
    assert receiver.received == []
    [row] = await outbox.deliveries()
    assert (row["state"], row["last_error"]) == ("pending", "forbidden_target")


async def test_secrets_are_sealed_where_there_is_a_master_key(
    postgres_url: str, receiver: Receiver, outbox: Outbox
) -> None:
    """They sign as ever; without the master key nothing is sent, and everything is there when it is back."""
    encryption = EncryptionSettings(master_keys=SecretStr(base64.b64encode(bytes(32)).decode()))
    sealing = Ledger(PostgresSettings(url=SecretStr(postgres_url), pool_size=4, read_pool_size=2), encryption)
    sealed = Outbox(sealing)
    relay = Relay(sealing, LAX, tick_seconds=CALM)
    _, secret = await sealed.webhook(receiver.url)
    await sealed.write()
    await sealed.finish(await sealed.begin(callback_url=receiver.url))
    assert await turn(relay) == 2
    kept = [row["secret"] for row in await sealed.rows("webhook_secret")]
    assert len(kept) == 2
    assert all(text.startswith("sealed:") for text in kept)
    assert any(request.is_signed_by(secret, now=utc_now().timestamp()) for request in receiver.received)
    await sealed.write()
    await sealed.finish(await sealed.begin(2, callback_url=receiver.url))
    without = Relay(outbox.ledger, LAX, tick_seconds=CALM)
    assert await turn(without) == 2
    assert len(receiver.received) == 2, "nothing is sent unsigned"
    assert [row["last_error"] for row in await outbox.deliveries()][2:] == ["no_secret"] * 2
    await outbox.make_due()
    assert await turn(relay) == 2
    assert {row["state"] for row in await outbox.deliveries()} == {"delivered"}
    await relay.stop()
    await sealing.close()


async def test_a_claim_that_was_taken_over_marks_nothing(outbox: Outbox) -> None:
    """Of a sender that was paused for longer than its claim, the late word does not count."""
    await outbox.webhook("https://hooks.example.com/")
    await outbox.write()

    async def claimed(lease: float) -> Mark:
        [message] = await claim(outbox.ledger, sending={}, per_channel=4, per_tenant=9, limit=9, lease_seconds=lease)
        return Mark(message.id, message.until, DeliveryState.DELIVERED, status=200)

    late, current = await claimed(0), await claimed(60)
    assert await claim(outbox.ledger, sending={}, per_channel=4, per_tenant=9, limit=9, lease_seconds=60) == []
    assert await mark(outbox.ledger, [late]) == [False]
    assert await mark(outbox.ledger, [current, current]) == [True, True]
    assert await mark(outbox.ledger, [current]) == [False], "it is over"


async def test_a_disabled_webhook_waits(outbox: Outbox, receiver: Receiver, relay: Relay) -> None:
    """Its messages go when it is enabled again, unless they have become too old."""
    await outbox.webhook(receiver.url)
    await outbox.write()
    await outbox.execute("UPDATE webhook SET enabled = false")
    assert await turn(relay) == 0
    await outbox.execute("UPDATE webhook SET enabled = true")
    assert await turn(relay) == 1
    await outbox.write()
    await outbox.execute("UPDATE webhook SET enabled = false")
    await outbox.execute("UPDATE webhook_delivery SET queued_at = now() - interval '4 days'")
    await Relay(outbox.ledger, LAX, tick_seconds=CALM).run_once()
    row = (await outbox.deliveries())[-1]
    assert (row["state"], row["last_error"]) == ("dead", "too_old")


async def test_it_is_woken_when_something_is_written(outbox: Outbox, receiver: Receiver, ledger: Ledger) -> None:
    """At once, by PostgreSQL; also after the connection that listens was lost."""
    relay = Relay(ledger, LAX, tick_seconds=CALM)
    await outbox.webhook(receiver.url)
    async with running([relay, Notifications(ledger, {WEBHOOK_CHANNEL: lambda _payload: relay.wake()})]):
        await outbox.write()
        await wait_until(lambda: len(receiver.received) == 1, "the first message")
        # Only of this database: others have tests of their own.
        async with ledger.connection() as connection:
            ended = await connection.fetch(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE query LIKE 'LISTEN%' AND datname = current_database()"
            )
        assert len(ended) == 1
        await outbox.write()
        await wait_until(lambda: len(receiver.received) == 2, "the second message")


async def test_a_dispatcher_listens_for_its_relay(settings: Settings, receiver: Receiver) -> None:
    """The two are put together in its daemon."""
    lax = settings.model_copy(update={"webhooks": LAX})
    async with opened(lax) as system:
        outbox = Outbox(system.ledger)
        await outbox.webhook(receiver.url)
        services = dispatcher_services(system.queue, system.ledger, lax)
        [relay] = [service for service in services if isinstance(service, Relay)]
        [listening] = [service for service in services if isinstance(service, Notifications)]
        relay._interval = CALM
        async with running([relay, listening]):
            for count in (1, 2):
                await outbox.write()
                await wait_until(state(outbox, "delivered", count), f"message {count}")


async def test_listening_starts_and_stops(ledger: Ledger) -> None:
    """In any order, like every service."""
    listening = Notifications(ledger, {WEBHOOK_CHANNEL: lambda _payload: None})
    await check_service_contract(listening, lambda: listening._task is not None and not listening._task.done())


async def test_secrets_stay_out_of_the_log(outbox: Outbox, receiver: Receiver, relay: Relay) -> None:
    """Neither what signs nor what stands in a URL."""
    _, secret = await outbox.webhook(f"{receiver.url}?token=hidden-1")
    receiver.answers = [play.status(500), play.reset, play.status(410)]
    await outbox.write()
    with structlog.testing.capture_logs() as lines:
        for _ in range(3):
            await outbox.make_due()
            await turn(relay)
    told = repr(lines)
    assert told.count("webhook answered") == 3
    assert "hidden-1" not in told
    assert secret not in told
    assert secret.removeprefix("whsec_") not in told


async def test_the_relay_starts_and_stops(outbox: Outbox, receiver: Receiver, ledger: Ledger) -> None:
    """In any order; what is under way when it stops is cut off after a moment, and another sends it again."""
    relay = Relay(ledger, LAX, tick_seconds=0.02)
    await check_service_contract(relay, lambda: relay._task is not None and not relay._task.done())
    await outbox.webhook(receiver.url)
    receiver.answers = [play.hang]
    await outbox.write()
    async with running([relay]):
        await wait_until(lambda: len(receiver.received) == 1, "the message under way")
    async with running([Relay(ledger, LAX, tick_seconds=0.02)]):
        await outbox.make_due()
        await wait_until(state(outbox, "delivered"), "the message sent again")


async def test_a_bug_ends_the_loop(
    outbox: Outbox, receiver: Receiver, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rather than being retried for ever in silence."""

    def broken(*_args: object, **_options: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("detectsched.dispatcher.relay.judge", broken)
    await outbox.webhook(receiver.url)
    await outbox.write()
    relay = Relay(ledger, LAX, tick_seconds=0.02)
    await relay.start()
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(relay.wait(), 10)
    await relay.stop()
