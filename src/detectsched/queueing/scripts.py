"""Loads the Lua files, expands their includes, and runs them by content hash.

``-- @include name`` stands for ``lua/include/name.lua``. Addressing scripts by hash (EVALSHA, falling back to EVAL)
lets two releases run side by side on one server.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from redis.exceptions import NoScriptError

from detectsched.errors import ConfigurationError
from detectsched.queueing.connection import Redis

_INCLUDE: Final = "-- @include "
_LUA: Final = files("detectsched.queueing") / "lua"

NAMES: Final = (
    "admit",
    "audit",
    "begin",
    "close",
    "complete",
    "defer",
    "dispatch",
    "enqueue",
    "entitle",
    "explain",
    "mine",
    "observe",
    "open",
    "pause",
    "promote",
    "prune",
    "reclaim",
    "release",
    "renew",
    "resume",
    "settle",
    "wipe",
    "withdraw",
)


@dataclass(frozen=True, slots=True)
class Script:
    """One operation: its expanded source and the hash that names it to the server."""

    name: str
    source: str
    sha: str


def expand(text: str, chain: tuple[str, ...]) -> str:
    """Replace each include line by its file.

    Raises:
        ConfigurationError: an include is missing or includes itself; the message names the chain.
    """
    lines = []
    for line in text.splitlines():
        if not line.startswith(_INCLUDE):
            lines.append(line)
            continue
        name = line.removeprefix(_INCLUDE).strip()
        here = (*chain, name)
        if name in chain:
            raise ConfigurationError(f"Lua include loop: {' → '.join(here)}")
        source = _LUA / "include" / f"{name}.lua"
        if not source.is_file():
            raise ConfigurationError(f"Lua include not found: {' → '.join(here)}")
        lines.append(expand(source.read_text(encoding="utf-8"), here))
    return "\n".join(lines)


@cache
def load(name: str) -> Script:
    """Return the script of that name.

    Raises:
        ConfigurationError: no such script, or a broken include.
    """
    path = _LUA / f"{name}.lua"
    if not path.is_file():
        raise ConfigurationError(f"Lua script not found: {name}")
    source = expand(path.read_text(encoding="utf-8"), (name,))
    return Script(name, source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())


async def run(redis: Redis, name: str, key: str, arguments: list[str | int | float | bytes]) -> list[bytes]:
    """Run a script; the server is given its source when it does not know the hash (after SCRIPT FLUSH or a restart)."""
    script = load(name)
    try:
        answer = await redis.evalsha(script.sha, 1, key, *arguments)
    except NoScriptError:
        answer = await redis.eval(script.source, 1, key, *arguments)
    return list(answer)
