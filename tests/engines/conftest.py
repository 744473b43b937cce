"""Engines of somebody else, installed for a test: for this process, and for those that it starts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

PLUGINS = Path(__file__).parent / "plugins"


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the test engines."""
    monkeypatch.syspath_prepend(str(PLUGINS))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(PLUGINS), os.environ.get("PYTHONPATH")])))
