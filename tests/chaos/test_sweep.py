"""A sample of the sweep over all failpoints: processes die or hang there, and nothing is lost.

``SWEEP_SEED`` decides the sample; ``python -m chaos.sweep`` plays them all.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chaos.cluster import Shape
from chaos.sweep import cases_of, sweep
from tests.support.stores import POSTGRES_BINARIES, REDIS_BINARY

SAMPLE = 4


@pytest.mark.timeout(300)
async def test_a_process_may_end_or_hang_anywhere(tmp_path: Path) -> None:
    """After each the system comes to rest, and every invariant holds."""
    seed = int(os.environ.get("SWEEP_SEED", "20260006"))
    shape = Shape(seed, runners=2, redis_binary=REDIS_BINARY, postgres_binaries=POSTGRES_BINARIES)
    passed = await sweep(cases_of(seed, SAMPLE), tmp_path, shape)
    assert [(each.point, each.action, each.wrong) for each in passed if each.wrong] == []
    assert len(passed) == SAMPLE
