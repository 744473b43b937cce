"""The benchmark of matching, on little: that it runs, and says what it promises."""

from __future__ import annotations

import pytest

from detectsched.bench.matching import run_matching


async def test_it_shows_speed_loading_and_the_claim(capsys: pytest.CaptureFixture[str]) -> None:
    """What the figures are depends on the machine."""
    await run_matching(rounds=1, sizes=(50, 500), text_bytes=2_000)
    shown = capsys.readouterr().out
    assert "Folding and matching" in shown
    assert "longest stall" in shown
    assert "claim: loading stalls the event loop at most 50 ms" in shown
