"""Which of paddlepaddle and ONNX Runtime runs PaddleOCR's models, and what is refused."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from detectsched.errors import ConfigurationError
from detectsched.ocr.paddle_runtime import Model, choose_runtime, find_model, prepare
from detectsched.settings import PaddleRuntime
from tests.paddle.conftest import OnnxModels

pytestmark = [
    pytest.mark.paddle,
    pytest.mark.skipif(
        importlib.util.find_spec("paddleocr") is None,
        reason="PaddleOCR lives in an environment of its own: make test-paddle",
    ),
]


def models(directory: Path, *files: str) -> tuple[Model, Model]:
    """Return two models in one directory with these files."""
    for name in files:
        (directory / name).touch()
    return Model("det", directory, "DETECTION"), Model("rec", directory, "RECOGNITION")


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (("inference.json", "inference.pdiparams"), "paddle"),
        (("inference.onnx",), "onnxruntime"),
        (("inference.onnx", "inference.json", "inference.pdiparams"), "onnxruntime"),
    ],
)
def test_auto_takes_onnx_runtime_where_the_models_are_there_as_onnx(
    tmp_path: Path, files: tuple[str, ...], expected: str
) -> None:
    """It is several times faster on a CPU."""
    assert choose_runtime(PaddleRuntime.AUTO, models(tmp_path, *files), gpu=False) == expected


def test_one_model_as_onnx_is_not_enough(tmp_path: Path) -> None:
    """Both or none: the message of a half conversion names the directory that lacks its file."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    both = models(tmp_path / "a", "inference.onnx", "inference.pdiparams")[0], models(tmp_path / "b")[1]
    assert choose_runtime(PaddleRuntime.AUTO, both, gpu=False) == "paddle"
    with pytest.raises(ConfigurationError, match=rf"RECOGNITION: {tmp_path}/b holds no inference\.onnx.*paddle2onnx"):
        choose_runtime(PaddleRuntime.ONNXRUNTIME, both, gpu=False)


def test_what_was_asked_for_is_taken(tmp_path: Path) -> None:
    """Although the other would do."""
    both = models(tmp_path, "inference.onnx", "inference.json", "inference.pdiparams")
    assert choose_runtime(PaddleRuntime.PADDLE, both, gpu=False) == "paddle"
    assert choose_runtime(PaddleRuntime.ONNXRUNTIME, both, gpu=False) == "onnxruntime"


def test_models_for_onnx_runtime_alone_are_not_given_to_paddlepaddle(tmp_path: Path) -> None:
    """Whose own words would be about a missing file of another name."""
    with pytest.raises(ConfigurationError, match=r"DETECTION: .* for ONNX Runtime only"):
        choose_runtime(PaddleRuntime.PADDLE, models(tmp_path, "inference.onnx"), gpu=False)


def test_a_gpu_that_onnx_runtime_cannot_use_is_refused_or_left_to_paddlepaddle(tmp_path: Path) -> None:
    """Neither falls back to the CPU; `auto` asks the one that might have a GPU."""
    both = models(tmp_path, "inference.onnx", "inference.json", "inference.pdiparams")
    assert choose_runtime(PaddleRuntime.AUTO, both, gpu=True) == "paddle"
    assert choose_runtime(PaddleRuntime.ONNXRUNTIME, both, gpu=True) == "onnxruntime"
    with pytest.raises(ConfigurationError, match=r"ONNX Runtime has no CUDA here; install onnxruntime-gpu"):
        prepare(PaddleRuntime.ONNXRUNTIME, gpu=True, threads=1)


def test_a_directory_without_a_model_is_refused(tmp_path: Path) -> None:
    """The message names the setting."""
    with pytest.raises(ConfigurationError, match=rf"THE_SETTING: {tmp_path} holds no PaddleOCR model"):
        find_model(tmp_path, "bundled", "THE_SETTING")


def test_the_version_tells_models_of_one_name_apart(tmp_path: Path) -> None:
    """A reading is reused as long as the version is the same; a model trained anew in the same place is another."""
    (tmp_path / "inference.yml").write_text("Global: {model_name: ours}")
    (tmp_path / "inference.onnx").write_bytes(b"old")
    old = find_model(tmp_path, "bundled", "SETTING").version(PaddleRuntime.ONNXRUNTIME)
    (tmp_path / "inference.onnx").write_bytes(b"new")
    new = find_model(tmp_path, "bundled", "SETTING").version(PaddleRuntime.ONNXRUNTIME)
    assert old != new
    assert old.startswith("ours@")
    assert find_model(None, "PP-OCRv5_mobile_det", "SETTING").version(PaddleRuntime.PADDLE) == "PP-OCRv5_mobile_det"


def test_with_onnx_models_paddlepaddle_need_not_be_installed(onnx_models: OnnxModels) -> None:
    """It costs a gigabyte on disk, a second at each start, and takes over the handling of signals."""
    code = """
import sys
from importlib import metadata, util
find = util.find_spec
util.find_spec = lambda name, package=None: None if name == "paddle" else find(name, package)
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name == "paddle" or name.startswith("paddle."):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
from detectsched.ocr.canary import require_canary
from detectsched.ocr.engine import build_engine
from detectsched.settings import OcrSettings
settings = {"detection_model_dir": sys.argv[1], "recognition_model_dir": sys.argv[2]}
engine = build_engine(OcrSettings(engine="paddle", **settings), 1)
require_canary(engine)
print(engine.version)
"""
    result = subprocess.run(
        [sys.executable, "-c", code, str(onnx_models.detection), str(onnx_models.recognition)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONWARNINGS": "ignore"},
    )
    paddleocr, runtime, *others = result.stdout.strip().splitlines()[-1].split("/")
    assert runtime.startswith("onnxruntime-")
    assert [name.partition("@")[0] for name in others] == ["PP-OCRv5_mobile_det", "PP-OCRv5_mobile_rec", "cpu"]
    assert paddleocr.startswith("3.")
