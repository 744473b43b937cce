"""Requests to URLs of strangers never reach our own network."""

from __future__ import annotations

import asyncio
import ipaddress
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import httpx
import pytest

from detectsched.errors import ForbiddenTarget, InvalidRequest, TooLarge
from detectsched.net.fetch import Fetcher
from detectsched.net.guard import Guard, is_public
from tests.support.waiting import wait_until

LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"),)
OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.8.9.10", "0.1.2.3", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
        "192.0.0.9", "192.88.99.1", "198.18.0.1", "203.0.113.7", "224.0.0.1", "240.0.0.1", "255.255.255.255",
        "::", "::1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "fe80::1", "fec0::1", "fc00::1", "ff0e::1",
        "64:ff9b::7f00:1", "64:ff9b:1::1", "2001::7f00:1", "2001:db8::1", "2002:7f00:1::", "3fff::1", "5f00::1",
    ],
)  # fmt: skip
def test_what_is_not_the_internet_at_large(address: str) -> None:
    """Ours, the machine's, a special purpose's, or an IPv4 address in an IPv6 coat."""
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "2a00:1450:4001::1"])
def test_what_is(address: str) -> None:
    """So that the test above cannot be passed by refusing everything."""
    assert is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://example.org/a.png", "only https"),
        ("file:///etc/passwd", "only https"),
        ("gopher://example.org/", "only https"),
        ("//example.org/a.png", "only https"),
        ("", "only https"),
        ("https://example.org:22/", "only port 443"),
        ("https://user@example.org/", "credentials"),
        ("https://user:secret@example.org/", "credentials"),
        ("https:///a.png", "no host"),
        ("https://127.0.0.1/", "public Internet"),
        ("https://[::1]/", "public Internet"),
        ("https://[::ffff:127.0.0.1]/", "public Internet"),
        ("https://[fe80::1%25eth0]/", "public Internet|not a URL"),
        ("https://169.254.169.254/latest/meta-data/", "public Internet"),
        ("https://example.org:99999999/", "not a URL|only port"),
    ],
)
def test_a_url_of_the_wrong_form_is_refused_before_anything_is_asked(url: str, says: str) -> None:
    """By its looks alone."""
    with pytest.raises(ForbiddenTarget) as refused:
        Guard().check_url(url)
    assert re.search(says, refused.value.detail)


@pytest.mark.parametrize("host", ["2130706433", "0177.1", "0x7f.1", "localhost", "127.1"])
async def test_other_spellings_of_loopback_are_found_out_by_where_they_lead(host: str) -> None:
    """The system's resolver understands them, so what it says is checked."""
    with pytest.raises((ForbiddenTarget, OSError)):
        await Guard().addresses(host, 443)


async def test_one_bad_address_among_good_ones_condemns_the_name() -> None:
    """Or the connection could be steered to it."""

    async def both(host: str, port: int) -> Sequence[str]:
        return ["8.8.8.8", "10.0.0.1"]

    with pytest.raises(ForbiddenTarget):
        await Guard(resolve=both).addresses("example.org", 443)


class Server:
    """Answers every connection with the same bytes, and notes what it was asked."""

    def __init__(self, answer: bytes, *, then_hang: bool = False) -> None:
        self.answer, self.then_hang = answer, then_hang
        self.requests: list[bytes] = []
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        try:
            self.requests.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(self.answer)
            await writer.drain()
            if self.then_hang:
                await reader.read()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(server: Server) -> AsyncIterator[Server]:
    """Run a server on loopback."""
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()


def inner(server: Server, resolve: Callable[[str, int], Awaitable[Sequence[str]]] | None = None) -> Guard:
    """Return a guard that lets the test's own server through: plain HTTP, its port, loopback."""
    return Guard(frozenset({"http"}), frozenset({server.port}), LOOPBACK, resolve)


def fetcher(guard: Guard, most_bytes: int = 1000, seconds: float = 10.0) -> Fetcher:
    """Return a fetcher with small limits."""
    return Fetcher(guard, most_bytes=most_bytes, seconds=seconds)


async def test_a_file_is_fetched_under_its_name() -> None:
    """The connection goes to the checked address, the request still names the host; no environment's proxy is used."""

    async def here(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    async with serving(Server(OK + b"Content-Length: 5\r\n\r\nhello")) as server:
        url = f"http://images.example:{server.port}/a.png?x=1"
        assert await fetcher(inner(server, here)).fetch(url, field="image_url") == b"hello"
    (request,) = server.requests
    assert request.startswith(b"GET /a.png?x=1 HTTP/1.1\r\n")
    assert f"Host: images.example:{server.port}".encode() in request


async def test_a_name_is_resolved_once_so_that_the_second_answer_does_not_matter() -> None:
    """DNS rebinding: good at the check, loopback at the connection."""
    answers = [["127.0.0.2"], ["127.0.0.1"]]
    asked = 0

    async def rebinding(host: str, port: int) -> Sequence[str]:
        nonlocal asked
        asked += 1
        return answers[asked - 1]

    async with serving(Server(OK + b"\r\nsecret")) as server:
        guard = Guard(frozenset({"http"}), frozenset({server.port}), (ipaddress.ip_network("127.0.0.2/32"),), rebinding)
        with pytest.raises(InvalidRequest, match="could not be downloaded"):
            await fetcher(guard).fetch(f"http://rebinding.example:{server.port}/", field="image_url")
    assert asked == 1
    assert server.requests == []


async def test_a_redirect_is_an_answer_not_an_order() -> None:
    """Wherever it leads."""
    async with serving(Server(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n")) as server:
        with pytest.raises(InvalidRequest, match=r"status 302: redirects are not followed") as refused:
            await fetcher(inner(server)).fetch(f"http://127.0.0.1:{server.port}/", field="image_url")
    assert refused.value.field == "image_url"
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        (OK + b"\r\n" + b"x" * 1001, TooLarge, "more than 1000 bytes"),
        (OK + b"Content-Length: 99999999999\r\n\r\n" + b"x" * 1001, TooLarge, "more than 1000 bytes"),
        (OK + b"Content-Encoding: gzip\r\n\r\n" + b"x" * 50, InvalidRequest, "compressed"),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", InvalidRequest, "status 404"),
        (OK + b"Content-Length: 50\r\n\r\nhalf", InvalidRequest, r"RemoteProtocolError"),
        (b"no HTTP\r\n\r\n", InvalidRequest, r"RemoteProtocolError"),
    ],
)
async def test_what_is_no_good_file_is_refused(answer: bytes, error: type[InvalidRequest], says: str) -> None:
    """Whatever its headers claim."""
    async with serving(Server(answer)) as server:
        with pytest.raises(error, match=says) as refused:
            await fetcher(inner(server)).fetch(f"http://127.0.0.1:{server.port}/", field="image_url")
    assert type(refused.value) is error


async def test_a_slow_server_has_its_time() -> None:
    """Counted over all, so that a byte now and then does not keep it open."""
    async with serving(Server(OK + b"Content-Length: 50\r\n\r\nhalf", then_hang=True)) as server:
        with pytest.raises(InvalidRequest, match=r"within 0\.2 s"):
            await fetcher(inner(server), seconds=0.2).fetch(f"http://127.0.0.1:{server.port}/", field="image_url")


async def test_downloads_beyond_the_places_wait() -> None:
    """A crowd of slow downloads holds so many connections and no more."""
    async with serving(Server(OK + b"Content-Length: 50\r\n\r\nhalf", then_hang=True)) as server:
        one = Fetcher(inner(server), most_bytes=1000, seconds=60, at_once=2)
        url = f"http://127.0.0.1:{server.port}/"
        running = [asyncio.create_task(one.fetch(url, field="image_url")) for _ in range(5)]
        await wait_until(lambda: len(server.requests) == 2, "two downloads are under way")
        assert one._places.locked()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    assert len(server.requests) == 2


async def test_a_client_is_guarded_at_every_request() -> None:
    """Also one that is used for something else than downloads, as webhooks are."""
    async with Guard().client(timeout_seconds=5) as client:
        for url in ("https://127.0.0.1/", "https://localhost/", "http://example.org/"):
            with pytest.raises(ForbiddenTarget):
                await client.post(url, content=b"{}")
    async with Guard(resolve=nowhere).client(timeout_seconds=5) as client:
        with pytest.raises(httpx.ConnectError, match="cannot be resolved"):
            await client.get("https://example.org/")


async def test_a_refusal_names_the_field() -> None:
    """As every other refusal of the API."""
    with pytest.raises(ForbiddenTarget) as refused:
        await fetcher(Guard()).fetch("https://10.0.0.1/", field="image_url")
    assert refused.value.field == "image_url"


async def nowhere(host: str, port: int) -> Sequence[str]:
    """Resolve nothing."""
    raise OSError("no such name")
