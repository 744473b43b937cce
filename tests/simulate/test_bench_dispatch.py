"""``detectsched bench dispatch`` at a size that says nothing about the claim, but that it measures."""

from __future__ import annotations

import pytest
import redis.asyncio

from detectsched.bench.dispatch import run_dispatch
from detectsched.embedded.servers import EmbeddedValkey


async def test_it_measures_both_sizes_and_leaves_nothing(
    redis_server: EmbeddedValkey, capsys: pytest.CaptureFixture[str]
) -> None:
    """A table with a ratio, a status by the claim, and an empty server."""
    async with redis.asyncio.from_url(redis_server.url) as client:
        before = await client.dbsize()
        status = await run_dispatch(few=5, many=100, rounds=3, redis_url=redis_server.url)
        assert await client.dbsize() == before
    text = capsys.readouterr().out
    assert "ratio" in text
    assert ("does not hold" in text) is (status == 1)
