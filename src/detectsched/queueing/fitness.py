"""Whether a Redis can be the working memory: asked once, when a process starts."""

from __future__ import annotations

import re
from typing import Final

from detectsched.errors import ConfigurationError, StoreUnavailable
from detectsched.queueing.connection import RedisClients, translated
from detectsched.telemetry import get_logger

log = get_logger(__name__)

_OLDEST_REDIS: Final = (7, 0)
_OLDEST_VALKEY: Final = (8, 0)


async def require_fit(clients: RedisClients) -> None:
    """Refuse a server that may throw keys away, or is too old; one that does not answer yet is waited for by the loops.

    Raises:
        ConfigurationError: what must be changed on the server.
    """
    try:
        async with translated():
            told = await clients.commands.info()
    except StoreUnavailable as error:
        log.warning("Redis does not answer yet", error=error.detail)
        return
    _require_version(told)
    policy = told.get("maxmemory_policy", "noeviction")
    if policy == "noeviction":
        return
    advice = f"its maxmemory-policy is {policy}; say: CONFIG SET maxmemory-policy noeviction"
    if int(told.get("maxmemory", 0)):
        raise ConfigurationError(f"this Redis removes keys when its memory is full, and with them queues: {advice}")
    log.warning("this Redis would remove keys if it had a limit of memory", advice=advice)


def _require_version(told: dict[str, object]) -> None:
    is_valkey = "valkey_version" in told
    raw = str(told.get("valkey_version" if is_valkey else "redis_version", "0"))
    found = tuple(int(part) for part in re.findall(r"\d+", raw)[:2])
    oldest = _OLDEST_VALKEY if is_valkey else _OLDEST_REDIS
    if found < oldest:
        name = "Valkey" if is_valkey else "Redis"
        raise ConfigurationError(f"{name} {raw} is too old: Redis 7.0 or Valkey 8.0 and later are known to work")
