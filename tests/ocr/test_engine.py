"""Choosing an engine, and refusing an installation that would read wrongly or not at all."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.typing import NDArray

from detectsched.cgroup import Cgroups
from detectsched.detection import Box, Line
from detectsched.errors import ConfigurationError
from detectsched.ocr.canary import require_canary
from detectsched.ocr.cores import engine_threads, usable_cores
from detectsched.ocr.engine import build_engine
from detectsched.ocr.opencv import check_opencv, guard_opencv, installed_opencv
from detectsched.ocr.process import engine_environment
from detectsched.settings import EngineName, OcrSettings


def test_what_the_api_and_the_runner_import_loads_no_engine() -> None:
    """Engines cost a second and hundreds of megabytes; only their own process pays."""
    heavy = "{'cv2', 'onnxruntime', 'rapidocr', 'paddle', 'paddleocr', 'redis', 'asyncpg', 'sqlalchemy', 'fastapi'}"
    code = f"import sys, detectsched.ocr.pool, detectsched.ocr.inspect; sys.exit(str({heavy} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.stderr.strip() == "set()"


@pytest.mark.skipif(importlib.util.find_spec("paddleocr") is not None, reason="this environment has PaddleOCR")
def test_an_engine_that_is_not_installed_is_refused_with_the_extra_to_install() -> None:
    """The message is a command."""
    with pytest.raises(ConfigurationError, match=r"pip install 'detectsched\[paddle\]'"):
        build_engine(OcrSettings(engine=EngineName.PADDLE), 1)


def test_two_opencv_packages_of_different_versions_are_refused_with_the_cure() -> None:
    """They overwrite each other's files; which one is imported depends on the order of installation."""
    mixed = {"opencv-contrib-python": "4.10.0.84", "opencv-python": "5.0.0.93"}
    with pytest.raises(ConfigurationError) as refused:
        check_opencv("paddle", mixed)
    assert "opencv-contrib-python 4.10.0.84, opencv-python 5.0.0.93" in refused.value.detail
    assert (
        "pip uninstall -y opencv-python && pip install --force-reinstall --no-deps opencv-contrib-python==4.10.0.84"
        in refused.value.detail
    )


@pytest.mark.parametrize(
    "found",
    [
        {},
        {"opencv-python-headless": "5.0.0.93"},
        {"opencv-python": "5.0.0.93"},
        {"opencv-python-headless": "5.0.0.93", "opencv-python": "5.0.0.93"},
    ],
)
def test_one_opencv_or_several_of_one_version_are_fine(found: dict[str, str]) -> None:
    """Packages of one version are the same code."""
    check_opencv("rapidocr", found)


def test_a_cv2_that_another_package_has_overwritten_is_refused_with_the_cure() -> None:
    """What pip leaves behind of it when the other is uninstalled: files of another version, or none."""
    found = {"opencv-python-headless": "5.0.0.93"}
    cure = r"pip install --force-reinstall --no-deps opencv-python-headless==5\.0\.0\.93"
    for other, name in ((SimpleNamespace(__version__="4.10.0"), "4.10.0"), (SimpleNamespace(), "nothing")):
        with pytest.raises(ConfigurationError, match=rf"imported is {name}: .*{cure}"):
            guard_opencv("rapidocr", found, other)
    guard_opencv("rapidocr", found, SimpleNamespace(__version__="5.0.0"))


def test_opencv_does_not_decode_whoever_asks_it() -> None:
    """The version that PaddleX pins would show rows of an earlier image in a truncated one (opencv issue 26488)."""
    cv2 = SimpleNamespace(__version__="4.10.0", imread=len, imdecode=len, cvtColor=len)
    guard_opencv("paddle", {}, cv2)
    for decoder in (cv2.imread, cv2.imdecode):
        with pytest.raises(RuntimeError, match="OpenCV does not decode here"):
            decoder("file", flags=1)
    assert cv2.cvtColor is len
    assert not hasattr(cv2, "imreadmulti")


def test_this_environment_has_one_opencv() -> None:
    """The check sees what is installed."""
    assert len(set(installed_opencv().values())) == 1


class Parrot:
    """An engine that always reads the same."""

    name = "parrot"
    version = "1"

    def __init__(self, text: str) -> None:
        self.text = text

    def read(self, image: NDArray[np.uint8], *, thrifty: bool = False) -> tuple[Line, ...]:
        """Read without looking."""
        assert image.dtype == np.uint8
        return (Line(self.text, Box(0, 0, 1, 1), 1.0),)


def test_an_engine_that_misreads_the_test_image_is_refused() -> None:
    """An engine that loads and then reads nothing would pass every image as clean."""
    require_canary(Parrot("8421 ready"))
    with pytest.raises(ConfigurationError, match="read '' on a test image that says '8421 ready'"):
        require_canary(Parrot(""))


def test_threads_are_the_share_of_the_usable_cores() -> None:
    """Slots share the cores; a wish is a wish; more than four are not taken unasked."""
    cores = usable_cores(Cgroups(Path("/nonexistent"), Path("/nonexistent")))
    assert cores == len(os.sched_getaffinity(0))
    assert engine_threads(0, 1) == min(4, usable_cores())
    assert engine_threads(0, 1000) == 1
    assert engine_threads(7, 1000) == 7


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpu.max": "100000 100000"}, 1),
        ({"cpu.max": "150000 100000"}, 2),
        ({"cpu.max": "10000 100000"}, 1),
        ({"cpu.max": "max 100000"}, None),
        ({"cpu/cpu.cfs_quota_us": "100000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 1),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({}, None),
    ],
)
def test_a_containers_quota_limits_the_cores(tmp_path: Path, files: dict[str, str], cores: int | None) -> None:
    """Cgroup 2 and 1; without a quota the affinity counts."""
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    membership = tmp_path / "membership"
    membership.write_text("1:cpu:/\n" if any(name.startswith("cpu/") for name in files) else "0::/\n")
    available = len(os.sched_getaffinity(0))
    assert usable_cores(Cgroups(tmp_path, membership)) == (available if cores is None else min(available, cores))


def test_an_engine_process_gets_no_credentials() -> None:
    """What decodes strangers' images must not hold the keys of the house."""
    environment = {
        "PATH": "/usr/bin",
        "LC_ALL": "C.UTF-8",
        "CUDA_VISIBLE_DEVICES": "1",
        "DETECTSCHED_POSTGRES_URL": "postgresql://u:secret@db/x",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "PGPASSWORD": "secret",
    }
    assert engine_environment(environment, 3) == {
        "PATH": "/usr/bin",
        "LC_ALL": "C.UTF-8",
        "CUDA_VISIBLE_DEVICES": "1",
        "OMP_NUM_THREADS": "3",
        "OPENBLAS_NUM_THREADS": "3",
    }
