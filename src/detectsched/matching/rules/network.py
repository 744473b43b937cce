"""E-mail addresses, URLs and IP addresses in folded text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Final

_LABEL: Final = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_EMAIL: Final = re.compile(
    rf"(?<![a-z0-9._%+-])[a-z0-9][a-z0-9._%+-]{{0,63}}@(?:{_LABEL}\.){{1,8}}[a-z]{{2,24}}(?![a-z0-9-])"
)
# Bare names count only under domains that are common in what is advertised, and are no file extensions.
_DOMAINS: Final = (
    "com|net|org|info|biz|cn|hk|tw|mo|jp|kr|sg|my|th|vn|ph|in|ru|uk|de|fr|it|es|nl|eu|us|ca|au|br|mx|me|tv|cc|co|io|ai|"
    "app|dev|xyz|top|vip|club|shop|store|site|online|live|fun|icu|ltd|link|ink|wang|work|win|bet|casino|xin|tech|pro|"
    "cloud|asia|mobi|name|space|website|gov|edu"
)
_CHARACTERS: Final = r"[a-z0-9._~:/?#\[\]@!$&'()*+,;=%-]"
_URL: Final = re.compile(
    rf"(?:https?|ftp)://{_CHARACTERS}{{2,2000}}"
    rf"|(?<![a-z0-9@._-])www\.(?:{_LABEL}\.){{1,8}}[a-z]{{2,24}}(?:[:/?#]{_CHARACTERS}{{0,2000}})?"
    rf"|(?<![a-z0-9@._-])(?:{_LABEL}\.){{1,8}}(?:{_DOMAINS})(?![a-z0-9@-])(?!\.[a-z0-9])"
    rf"(?::[0-9]{{1,5}})?(?:[/?#]{_CHARACTERS}{{0,2000}})?"
)
_TRAILING: Final = ".,;:!?'([*&=~-"
_ADDRESS: Final = re.compile(
    r"(?<![0-9a-z:.])(?:[0-9a-f:]{2,39}:(?:[0-9]{1,3}\.){3}[0-9]{1,3}|[0-9a-f]{0,4}:[0-9a-f:]{2,39})(?![0-9a-z:]|\.[0-9])"
    r"|(?<![0-9.])(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?![0-9]|\.[0-9])"
)
"""IPv6, which may end like IPv4, then IPv4."""


def emails(content: str) -> Iterator[tuple[int, int]]:
    """Yield e-mail addresses."""
    return (found.span() for found in _EMAIL.finditer(content))


def urls(content: str) -> Iterator[tuple[int, int]]:
    """Yield URLs without the punctuation that follows them in a sentence."""
    for found in _URL.finditer(content):
        address = found.group().rstrip(_TRAILING)
        # A bracket that was opened in the address belongs to it: …/Paris_(Texas)
        while address.endswith(")") and address.count("(") < address.count(")"):
            address = address[:-1].rstrip(_TRAILING)
        yield found.start(), found.start() + len(address)


def ips(content: str) -> Iterator[tuple[int, int]]:
    """Yield IPv4 and IPv6 addresses."""
    for found in _ADDRESS.finditer(content):
        written = found.group()
        # abc::def is a name in some languages of programming.
        if any(map(str.isdecimal, written)) and _is_address(written):
            yield found.span()


def _is_address(written: str) -> bool:
    try:
        ip_address(written)
    except ValueError:
        return False
    return True
