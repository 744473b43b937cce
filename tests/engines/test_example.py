"""The example of docs/engines.md works as it stands there."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from detectsched.detection import Box, Line
from detectsched.engines.plugin import EngineContext, EnginePlugin, Reading
from detectsched.errors import PayloadRejected
from detectsched.settings import OcrSettings

EXAMPLE = Path(__file__).parents[2] / "examples/detectsched-engine-csv/detectsched_engine_csv.py"


@pytest.fixture
def engine() -> EnginePlugin:
    """Load the example."""
    spec = importlib.util.spec_from_file_location("detectsched_engine_csv", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    made: EnginePlugin = module.CsvEngine(EngineContext(1, 1, OcrSettings()))
    return made


def test_it_reads_tables(engine: EnginePlugin) -> None:
    """Cells are lines; column and row are their place."""
    assert engine.read(b'a,"b\nc",\n,d') == Reading(
        (Line("a", Box(0, 0, 1, 1), 1.0), Line("b c", Box(1, 0, 2, 1), 1.0), Line("d", Box(1, 1, 2, 2), 1.0)), 3, 2
    )


def test_it_rejects_what_is_none(engine: EnginePlugin) -> None:
    """For good."""
    with pytest.raises(PayloadRejected):
        engine.read(b"\xff\xfe\x00")
