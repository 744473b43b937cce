"""A stand-in for the driver's NVML library, talked to by the real binding."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.nvml import Driver, build, can_build, load


@pytest.fixture(scope="session")
def _fake_nvml(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Build the fake NVML library and make it this process's."""
    if not can_build():
        pytest.skip("the fake NVML library needs gcc to be built")
    load(build(tmp_path_factory.mktemp("nvml")))


@pytest.fixture
def driver(_fake_nvml: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Driver:
    """Give a fake driver without a GPU so far."""
    answers = tmp_path / "nvml-answers"
    monkeypatch.setenv("NVML_ANSWERS", str(answers))
    return Driver(answers)
