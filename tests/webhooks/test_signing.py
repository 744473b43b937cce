"""Signatures are those of Standard Webhooks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from detectsched.webhooks import signing
from tests.support.receiver import Received


def test_the_example_of_the_specification() -> None:
    """The secret, id, time and body that the reference libraries test themselves with."""
    found = signing.headers(
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        1614265330,
        b'{"test": 2432232314}',
        ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
    )
    assert found == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_either_secret_proves_it_while_one_replaces_the_other() -> None:
    """And no third one; nor does an old message count."""
    old, new, other = (signing.new_secret() for _ in range(3))
    body = '{"word":"礼品卡"}'.encode()
    message = Received("/", signing.headers("m1", 1_700_000_000, body, [new, old]), body)
    assert message.is_signed_by(new, now=1_700_000_100)
    assert message.is_signed_by(old, now=1_700_000_100)
    assert not message.is_signed_by(other, now=1_700_000_100)
    assert not message.is_signed_by(new, now=1_700_000_301)
    assert not Received("/", message.headers, body + b" ").is_signed_by(new, now=1_700_000_100)


def test_secrets_are_new_each_time() -> None:
    """32 random bytes in the form that receivers' libraries take."""
    assert signing.new_secret() != signing.new_secret()
    assert signing.new_secret().startswith("whsec_")


def test_the_receiver_in_the_documentation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes what we send, and nothing else."""
    page = (Path(__file__).parents[2] / "docs" / "commands.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    exec(page.split("```python\n")[1].split("```")[0], names)  # noqa: S102 - our own page
    is_genuine = names["is_genuine"]
    old, new = signing.new_secret(), signing.new_secret()
    headers = signing.headers("m1", 1_700_000_000, b"{}", [new, old])
    monkeypatch.setattr("time.time", lambda: 1_700_000_100.0)
    assert is_genuine(headers, b"{}", old)
    assert is_genuine(headers, b"{}", new)
    assert not is_genuine(headers, b"{ }", new)
    assert not is_genuine({**headers, "webhook-id": "m2"}, b"{}", new)
    assert not is_genuine(headers, b"{}", signing.new_secret())
    monkeypatch.setattr("time.time", lambda: 1_700_000_301.0)
    assert not is_genuine(headers, b"{}", new)
