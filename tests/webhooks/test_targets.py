"""What tenants may have us speak to; the guard itself has its own tests (tests/net)."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from detectsched.errors import RequestRefused
from detectsched.settings import WebhookSettings
from detectsched.webhooks.targets import checked_url, guard_of

STRICT = guard_of(WebhookSettings())
INSIDE = guard_of(WebhookSettings(allow_http=True, allow_networks=("127.0.0.0/8",), ports=()))


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("https://hooks.example.com/a?b=c", "https://hooks.example.com/a?b=c"),
        ("HTTPS://Hooks.Example.COM", "https://hooks.example.com"),
        ("https://hooks.example.com:443/", "https://hooks.example.com/"),
        ("https://münchen.example/ä", "https://xn--mnchen-3ya.example/%C3%A4"),
        ("https://8.8.8.8/", "https://8.8.8.8/"),
    ],
)
def test_urls_that_are_taken(text: str, kept: str) -> None:
    """In the form in which they are kept."""
    assert checked_url(text, STRICT, field="url") == kept


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hooks.example.com",
        "http://hooks.example.com/",
        "file:///etc/passwd",
        "https:///path",
        "https://user:secret@hooks.example.com/",
        "https://hooks.example.com/#part",
        "https://hooks.example.com:8080/",
        "https://127.0.0.1/",
        "https://169.254.169.254/latest/meta-data",
        "https://[::ffff:127.0.0.1]/",
        f"https://hooks.example.com/{'a' * 2000}",
        f"https://hooks.example.com/{'ä' * 900}",
        f"https://{'a.' * 200}example.com/",
        f"https://{'a ' * 100}.example.com/",
    ],
)
def test_urls_that_are_refused(text: str) -> None:
    """Naming the field."""
    with pytest.raises(RequestRefused) as caught:
        checked_url(text, STRICT, field="callback_url")
    assert caught.value.field == "callback_url"


def test_settings_open_a_trusted_network() -> None:
    """Plain http, networks and ports, each by itself."""
    assert checked_url("http://127.0.0.1:9000/x", INSIDE, field="url") == "http://127.0.0.1:9000/x"
    for settings in (
        WebhookSettings(allow_http=True, ports=()),
        WebhookSettings(allow_networks=("127.0.0.0/8",), ports=()),
        WebhookSettings(allow_networks=("127.0.0.0/8",), allow_http=True),
        WebhookSettings(allow_networks=("10.0.0.0/8",), allow_http=True, ports=()),
    ):
        with pytest.raises(RequestRefused):
            checked_url("http://127.0.0.1:9000/x", guard_of(settings), field="url")


@pytest.mark.parametrize(
    "wrong", [{"ports": "0"}, {"ports": "https"}, {"allow_networks": "10.0.0.1/8"}, {"claim_seconds": 20.0}]
)
def test_wrong_settings(wrong: dict[str, object]) -> None:
    """Are found at the start."""
    with pytest.raises(ValidationError):
        WebhookSettings.model_validate(wrong)
