"""What the relay has under way at once: no address, no tenant and no dispatcher takes what others need."""

from __future__ import annotations

from detectsched.db.connection import Ledger
from detectsched.dispatcher.relay import Relay
from tests.dispatcher.relaying import CALM, LAX, state
from tests.support import receiver as play
from tests.support.outbox import Outbox
from tests.support.receiver import Receiver, receiving
from tests.support.system import running
from tests.support.waiting import wait_until


async def test_a_slow_address_holds_up_nobody(outbox: Outbox, receiver: Receiver, relay: Relay) -> None:
    """It has its share of the requests under way, however much waits for it; the others' messages go at once."""
    async with receiving() as slow:
        slow.always = play.hang
        await outbox.webhook(slow.url)
        await outbox.write(30)
        await outbox.webhook(receiver.url, "command.notify")
        assert await relay.run_once() == LAX.max_in_flight_per_endpoint
        await outbox.write(3)
        assert await relay.run_once() == 3, "the slow one's share is used up"
        await wait_until(lambda: len(receiver.received) == 3, "the others' messages")
        await wait_until(state(outbox, "delivered", 3), "their marks")
        assert slow.most_open <= LAX.max_in_flight_per_endpoint
        await relay.settled()
        assert await relay.run_once() == LAX.max_in_flight_per_endpoint, "then the next of the slow one"


async def test_tenants_take_turns(outbox: Outbox, receiver: Receiver, ledger: Ledger) -> None:
    """One with any number of slow hosts has its share of the requests under way; another's messages go at once."""
    few = LAX.model_copy(update={"max_in_flight": 6, "max_in_flight_per_tenant": 4, "timeout_seconds": 3.0})
    await outbox.execute("INSERT INTO tenant (id, name) VALUES ('other', 'Other')")
    other = Outbox(ledger, "other")
    await other.webhook(receiver.url)
    # On all of this machine's loopback addresses, each of which is another host.
    async with receiving("0.0.0.0") as slow:  # noqa: S104
        slow.always = play.hang
        for number in range(9):
            await outbox.finish(await outbox.begin(number, callback_url=f"http://127.0.0.{number + 1}:{slow.port}/"))
        small = Relay(ledger, few, tick_seconds=CALM)
        await other.write(2)
        assert await small.run_once() == 6, "four of one, both of the other"
        await wait_until(lambda: len(receiver.received) == 2, "the other's messages")
        await wait_until(state(outbox, "delivered", 2), "their marks")
        assert await small.run_once() == 0, "the share of the first is used up"
        await other.write(1)
        assert await small.run_once() == 1
        await wait_until(state(outbox, "delivered", 3), "the other's next message")
        await small.stop()


async def test_a_lone_tenant_is_bounded_as_well(outbox: Outbox, receiver: Receiver, ledger: Ledger) -> None:
    """Turns are counted over its webhooks; what ends makes room for the rest."""
    few = LAX.model_copy(update={"max_in_flight_per_tenant": 3})
    relay = Relay(ledger, few, tick_seconds=CALM)
    for _ in range(3):
        await outbox.webhook(receiver.url)
    await outbox.write(4)
    assert await relay.run_once() == 3
    await relay.settled()
    async with running([relay]):
        await wait_until(state(outbox, "delivered", 12), "all of them")
    assert receiver.most_open <= 3


async def test_the_whole_is_bounded(outbox: Outbox, receiver: Receiver, ledger: Ledger) -> None:
    """No more is under way than the settings allow; what ends makes room for what waits."""
    small = Relay(ledger, LAX.model_copy(update={"max_in_flight": 2}), tick_seconds=CALM)
    await outbox.webhook(receiver.url)
    await outbox.write(9)
    assert await small.run_once() == 2
    assert await small.run_once() == 0
    await small.settled()
    async with running([small]):
        await wait_until(state(outbox, "delivered", 9), "all of them")
    assert receiver.most_open <= 2


async def test_two_relays_send_each_message_once(outbox: Outbox, receiver: Receiver, ledger: Ledger) -> None:
    """They share the work."""
    relays = [Relay(ledger, LAX, tick_seconds=0.02) for _ in range(2)]
    await outbox.webhook(receiver.url)
    commands = await outbox.write(60)
    async with running(relays):
        await wait_until(state(outbox, "delivered", 60), "all of them")
    assert sorted(request.message_id for request in receiver.received) == sorted(map(str, commands))
