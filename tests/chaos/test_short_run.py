"""The chaos program in its short form: real processes under load, fourteen faults, and nothing is lost.

``CHAOS_SEED`` decides the order of the faults and all chance of the client; the seed is in the report.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chaos.cluster import Shape
from chaos.report import report
from chaos.run import run, short_plan
from tests.support.stores import POSTGRES_BINARIES, REDIS_BINARY


@pytest.mark.timeout(240)
async def test_nothing_is_lost_and_nothing_is_done_twice(tmp_path: Path) -> None:
    """Everything that was planned has happened, and every invariant holds."""
    seed = int(os.environ.get("CHAOS_SEED", "20260001"))
    shape = Shape(seed, redis_binary=REDIS_BINARY, postgres_binaries=POSTGRES_BINARIES)
    outcome = await run(short_plan(seed, shape), tmp_path)
    assert outcome.good, report(outcome, seed)
