"""Finds Redis keys that nothing will ever remove."""

from __future__ import annotations

import redis.asyncio

from detectsched.queueing import keys


async def leaked_keys(client: redis.asyncio.Redis) -> list[str]:
    """Return the keys without a TTL that do not belong to the families documented to live without one."""
    names = sorted([name async for name in client.scan_iter(count=1000)])
    async with client.pipeline(transaction=False) as pipeline:
        for name in names:
            pipeline.pttl(name)
        lives = await pipeline.execute()
    texts = (name.decode() if isinstance(name, bytes) else str(name) for name in names)
    return [text for text, life in zip(texts, lives, strict=True) if life == -1 and not keys.is_owned_without_ttl(text)]
