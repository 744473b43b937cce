"""Engines' failures told apart by the words that users have reported."""

from __future__ import annotations

import pytest

from detectsched.ocr.faults import Fault, fault_in, fault_of

ALLOCATED = "4.000000MB memory on GPU 0, 3.630493GB memory has been allocated and available memory is only 3.312500MB."
RECORDED = [
    # PaddleOCR issue 16533 (2025), and as RuntimeError in PaddleOCR issue 1470
    (
        RuntimeError(f"ResourceExhaustedError: \n\nOut of memory error on GPU 0. Cannot allocate {ALLOCATED}"),
        Fault.OUT_OF_MEMORY,
    ),
    # PaddleOCR issue 2656, and measured with a limit on memory
    (RuntimeError("ResourceExhaustedError: Fail to alloc memory of 5060694016 size."), Fault.OUT_OF_MEMORY),
    (MemoryError("In user code:"), Fault.OUT_OF_MEMORY),
    # PaddleOCR issue 6426
    (
        OSError(
            "(External) CUDA error(2), out of memory.\n  [Hint: 'cudaErrorMemoryAllocation'. The API call failed "
            "because it was unable to allocate enough memory to perform the requested operation. ]"
        ),
        Fault.OUT_OF_MEMORY,
    ),
    # onnxruntime issues 9939, 16307, 22702
    (
        RuntimeError(
            "[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : Non-zero status code returned while running Conv node. "
            "bfc_arena.cc:331 void* onnxruntime::BFCArena::AllocateRawInternal(size_t, bool) Failed to allocate memory "
            "for requested buffer of size 8388608000"
        ),
        Fault.OUT_OF_MEMORY,
    ),
    # Deep-Live-Cam issue 584
    (
        RuntimeError(
            "[ONNXRuntimeError] : 1 : FAIL : cuda_call.cc:114 onnxruntime::CudaCall CUDA failure 2: out of memory ; "
            "GPU=0 ; hostname=host ; expr=cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);"
        ),
        Fault.OUT_OF_MEMORY,
    ),
    # PaddleOCR issues 15118, 6533 and, in older words, 6299
    (
        OSError(
            "(External) CUDA error(700), an illegal memory access was encountered. \n  "
            "[Hint: 'cudaErrorIllegalAddress'. The device encountered a load or store instruction on an invalid "
            "memory address.]"
        ),
        Fault.GPU_ERROR,
    ),
    (OSError("(External)  Cuda error(700), an illegal memory access was encountered."), Fault.GPU_ERROR),
    # PaddleNLP issue 6609
    (OSError("(External) CUDNN error(8), CUDNN_STATUS_EXECUTION_FAILED."), Fault.GPU_ERROR),
    # onnxruntime issues 26312, 5295, 11592
    (
        RuntimeError("CUDA failure 700: an illegal memory access was encountered ; GPU=0 ; hostname=host"),
        Fault.GPU_ERROR,
    ),
    (RuntimeError("CUDNN failure 4: CUDNN_STATUS_INTERNAL_ERROR ; GPU=0"), Fault.GPU_ERROR),
    (RuntimeError("[ONNXRuntimeError] : 1 : FAIL : CUDA error executing cudaMemcpy(dst_data, src)"), Fault.GPU_ERROR),
    # PaddleOCR issue 17144: a child of a fork
    (
        OSError("(External) CUDA error(3), initialization error."),
        Fault.GPU_ERROR,
    ),
    # Paddle issue 77340: oneDNN of 3.3
    (
        NotImplementedError("(Unimplemented) ConvertPirAttribute2RuntimeAttribute not support"),
        Fault.ENGINE_ERROR,
    ),
    (ValueError("all input arrays must have the same shape"), Fault.ENGINE_ERROR),
    (RuntimeError("std::exception"), Fault.ENGINE_ERROR),
    (OSError("cannot open /usr/local/cuda/lib64/libcudnn.so.9"), Fault.ENGINE_ERROR),
]


@pytest.mark.parametrize(("error", "fault"), RECORDED, ids=[str(error)[:40] for error, _ in RECORDED])
def test_recorded_errors_are_told_apart(error: Exception, fault: Fault) -> None:
    """By type where it says something, else by words."""
    assert fault_of(error) is fault


def test_a_dead_process_is_judged_by_its_last_words() -> None:
    """PaddleOCR issue 15118: the error ends the process instead of being raised."""
    words = "terminate called after throwing an instance of 'phi::enforce::EnforceNotMet'\n  what():  (External) "
    assert fault_in(words + "CUDA error(700), an illegal memory access was encountered.", Fault.CRASHED) is (
        Fault.GPU_ERROR
    )
    assert fault_in("Segmentation fault", Fault.CRASHED) is Fault.CRASHED
    assert fault_in("terminate called after throwing an instance of 'std::bad_alloc'", Fault.CRASHED) is (
        Fault.OUT_OF_MEMORY
    )
