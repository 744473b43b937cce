"""Runners and their engines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, field_validator, model_validator
from pydantic_settings import NoDecode

from detectsched.settings.choices import EngineName, FramePolicy, PaddleRuntime
from detectsched.settings.group import Group, split_names
from detectsched.wordlist import SearchLibrary


class RunnerSettings(Group):
    """One runner process."""

    name: str = Field("", max_length=100, pattern=r"^[A-Za-z0-9._-]*$")
    """The name by which operators drain it; empty: the host's name. Runners may share one."""
    heartbeat_seconds: float = Field(15.0, gt=0)
    """How often a runner reports itself and renews its leases."""
    ttl_seconds: float = Field(60.0, gt=0)
    """A runner silent for this long is gone."""
    task_timeout_seconds: float = Field(900.0, gt=0)
    """Longest run of one task; then its engine is killed (CELERY_MAC_ACTIVE_TTL)."""
    text_slots: int = Field(32, ge=1, le=1000)
    """Texts one runner works on at once."""
    max_hits: int = Field(1000, ge=1, le=100_000)
    """Hits that are kept of one text or image; of more, the gravest."""
    search_library: SearchLibrary = SearchLibrary.PYAHOCORASICK
    """What finds words in texts: ahocorasick_rs is faster with long texts (extra bulk)."""
    ocr_slots: int = Field(1, ge=1, le=64)
    """Images one runner works on at once; each slot is one engine process."""
    cpu_high_percent: float = Field(75.0, gt=0, le=100)
    """Foreign CPU load above which nothing is fetched; 100: never (CELERY_WORKER_CPU_HIGH_WATERMARK)."""
    memory_high_percent: float = Field(75.0, gt=0, le=100)
    """Foreign memory use above which nothing is fetched; 100: never (CELERY_WORKER_MEM_HIGH_WATERMARK)."""
    gpu_memory_high_percent: float = Field(75.0, gt=0, le=100)
    """Foreign GPU memory use above which nothing is fetched, where NVML shows whose it is; 100: never."""
    gpu_util_high_percent: float = Field(75.0, gt=0, le=100)
    """GPU utilisation, while this runner itself is idle, above which nothing is fetched; 100: never."""
    grace_seconds: float = Field(30.0, ge=0, le=3600)
    """How long running tasks may go on after a stop was asked for; then they are given back."""


class OcrSettings(Group):
    """The OCR engine processes."""

    engine: EngineName = EngineName.AUTO
    """auto, rapidocr or paddle."""
    gpu: bool = False
    """Run the engine on a GPU; refused where none is usable."""
    gpus: Annotated[tuple[str, ...], NoDecode] = ()
    """With gpu: which, by index among the visible ones or by UUID; one engine process each. Empty: the first."""
    threads: int = Field(0, ge=0, le=256)
    """CPU threads of one engine process; 0: the usable cores divided by ocr_slots, at most 4."""
    recognition_batch: int = Field(0, ge=0, le=64)
    """Text lines per recognition call; 0: 1 on CPU (measured best), 4 on GPU (the original's)."""
    batch_images: int = Field(1, ge=1, le=64)
    """Images of similar size that one engine process reads together; 1: each for itself. On a CPU more is slower."""
    batch_wait_ms: float = Field(20.0, ge=0, le=1000)
    """With batch_images: how long the first image of a batch waits for others."""
    detection_model_dir: Path | None = None
    """Local directory of the detection model (paddle)."""
    recognition_model_dir: Path | None = None
    """Local directory of the recognition model (paddle)."""
    paddle_runtime: PaddleRuntime = PaddleRuntime.AUTO
    """What runs paddle's models; auto: onnxruntime where both directories hold inference.onnx, else paddle."""
    frames: FramePolicy = FramePolicy.SAMPLE
    """Which frames of an animation, or pages of a TIFF, are read: first, sample or all."""
    max_frames: int = Field(8, ge=1, le=100)
    """Most frames or pages of one file that are read; fewer where together they have more pixels than one image may."""
    start_timeout_seconds: float = Field(120.0, gt=0)
    """How long an engine process may take to become ready."""
    recycle_after_images: int = Field(500, ge=1)
    """An engine process is replaced after this many images: OCR engines grow."""
    recycle_growth_mb: int = Field(1024, ge=64)
    """An engine process is replaced when it has grown by this much since its first image."""
    recycle_gpu_growth_mb: int = Field(2048, ge=64)
    """The same for what it holds on its GPU, where NVML shows that."""
    max_memory_mb: int = Field(6144, ge=512)
    """An engine process larger than this is killed; its image is read again more thriftily, then ends as too large."""
    gpu_retry_seconds: float = Field(60.0, gt=0, le=86_400)
    """A slot whose GPU has failed works on the CPU and probes the GPU after this time, doubled up to tenfold."""

    reuse_seconds: float = Field(86_400.0, ge=0)
    """A reading is reused for the same image of the same tenant, until this time after its last use; 0: never."""

    def on_cpu(self) -> OcrSettings:
        """Return the same without a GPU."""
        return self.model_copy(update={"gpu": False, "gpus": ()})

    @field_validator("gpus", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return split_names(value)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.gpus and not self.gpu:
            raise ValueError("ocr.gpus names GPUs, but ocr.gpu is off")
        if len(set(self.gpus)) < len(self.gpus):
            raise ValueError("ocr.gpus names a GPU twice; for more processes on each, raise runner.ocr_slots")
        return self
