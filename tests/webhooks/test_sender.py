"""One message to one address, whatever the address does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from detectsched.settings import WebhookSettings
from detectsched.webhooks.sender import Sender
from detectsched.webhooks.verdict import Answer
from tests.support import receiver as play
from tests.support.receiver import Receiver, receiving

LAX = WebhookSettings(
    allow_http=True,
    allow_networks=("127.0.0.0/8", "::1/128"),
    ports=(),
    timeout_seconds=0.5,
    claim_seconds=1.0,
)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """Give a receiver."""
    async with receiving() as running:
        yield running


@pytest.fixture
async def sender() -> AsyncIterator[Sender]:
    """Give a sender that may speak to the loopback."""
    opened = Sender(LAX)
    yield opened
    await opened.close()


async def send(sender: Sender, url: str) -> Answer:
    """Send something."""
    return await sender.send(url, b'{"a":1}', {"webhook-id": "m1"})


async def test_it_posts_json(receiver: Receiver, sender: Sender) -> None:
    """With the headers given, to the path with its query, naming the host of the URL."""
    assert await send(sender, f"http://localhost:{receiver.port}/hook?key=1") == Answer(204)
    [request] = receiver.received
    assert request.path == "/hook?key=1"
    assert request.body == b'{"a":1}'
    assert request.headers["host"] == f"localhost:{receiver.port}"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["webhook-id"] == "m1"
    assert request.headers["user-agent"].startswith("detectsched/")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (play.status(500), Answer(500)),
        (play.status(410), Answer(410)),
        (play.status(503, Retry_After="7"), Answer(503, retry_after="7")),
        (play.reset, Answer(error="connection_broken")),
        (play.nonsense, Answer(error="connection_broken")),
        (play.hang, Answer(error="timeout")),
        (play.drip, Answer(error="timeout")),
        (play.flood, Answer(200)),
        (play.reset_after_200, Answer(200)),
    ],
)
async def test_answers(receiver: Receiver, sender: Sender, answer: play.Answer, told: Answer) -> None:
    """Whatever it is, it is told within the time-out, and of its body nothing is read."""
    receiver.always = answer
    assert await asyncio.wait_for(send(sender, receiver.url), 5) == told


async def test_a_redirect_is_not_followed(receiver: Receiver, sender: Sender) -> None:
    """Wherever it leads."""
    async with receiving() as inside:
        receiver.always = play.status(307, Location=inside.url)
        assert await send(sender, receiver.url) == Answer(307)
        assert inside.received == []


async def test_nobody_there(sender: Sender) -> None:
    """Is an answer as well."""
    async with receiving() as gone:
        url = gone.url
    assert await send(sender, url) == Answer(error="connect_failed")


async def test_a_private_address_is_not_spoken_to(receiver: Receiver) -> None:
    """Neither by its number nor under a name, unless a setting allows it."""
    sender = Sender(LAX.model_copy(update={"allow_networks": ()}))
    for host in ("127.0.0.1", "localhost", "2130706433", "[::ffff:127.0.0.1]"):
        assert await send(sender, f"http://{host}:{receiver.port}/") == Answer(error="forbidden_target"), host
    await sender.close()
    assert receiver.received == []


async def test_a_name_is_asked_for_once(receiver: Receiver) -> None:
    """Whoever resolves to an allowed address first and to another then is dialled at the first (DNS rebinding)."""
    asked = []

    async def rebinding(host: str, _port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["127.0.0.2"]

    sender = Sender(LAX, rebinding)
    assert await send(sender, f"http://hooks.example:{receiver.port}/") == Answer(204)
    await sender.close()
    assert asked == ["hooks.example"]
    assert receiver.received[0].headers["host"] == f"hooks.example:{receiver.port}"


async def test_a_slow_resolver(receiver: Receiver) -> None:
    """Counts as part of the attempt."""

    async def slow(_host: str, _port: int) -> list[str]:
        await asyncio.Event().wait()
        raise AssertionError

    sender = Sender(LAX, slow)
    assert await send(sender, "http://slow.example/") == Answer(error="timeout")
    await sender.close()
    sender = Sender(LAX)
    assert await send(sender, f"http://{'a' * 64}.example/") == Answer(error="connect_failed")
    assert await send(sender, f"http://localhost:{receiver.port}/") == Answer(204)
    await sender.close()


async def test_no_proxy_of_the_environment(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy would dial by itself what was checked here."""
    async with receiving() as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("ALL_PROXY", f"http://127.0.0.1:{proxy.port}")
        sender = Sender(LAX)
        assert await send(sender, receiver.url) == Answer(204)
        await sender.close()
        assert proxy.received == []
