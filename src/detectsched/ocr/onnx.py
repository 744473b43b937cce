"""ONNX Runtime's GPU: used or refused, for it falls back to the CPU without an error."""

from __future__ import annotations

from typing import Any, Final

import onnxruntime

from detectsched.errors import ConfigurationError

_CUDA: Final = "CUDAExecutionProvider"


def cuda_is_built_in() -> bool:
    """Say whether this ONNX Runtime is the build for CUDA; whether there is a GPU, it tells only with a model."""
    return _CUDA in onnxruntime.get_available_providers()


def require_cuda_build(extra: str) -> None:
    """Refuse the CPU build.

    Args:
        extra: what is to be installed instead.
    """
    if not cuda_is_built_in():
        raise ConfigurationError(
            f"ONNX Runtime has no CUDA here; install {extra} (pip uninstall onnxruntime first: the two overwrite each "
            "other), or set DETECTSCHED_OCR_GPU=false"
        )


def require_on_cuda(session: Any) -> None:
    """Refuse a session (`onnxruntime.InferenceSession`) whose model is not on the GPU."""
    provider = session.get_providers()[0]
    if provider != _CUDA:
        raise ConfigurationError(
            f"ONNX Runtime knows CUDA but put the model on {provider}: no GPU is visible, or the driver, CUDA or "
            "cuDNN does not fit onnxruntime-gpu; see its log, or set DETECTSCHED_OCR_GPU=false"
        )
