"""Who is served next, and what is done when nobody can be."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, field_validator
from pydantic_settings import NoDecode

from detectsched.settings.choices import NoRunner, Order, Policy
from detectsched.settings.group import Group, split_names


class SchedulerSettings(Group):
    """Who is served next, for how long, and what happens when it goes wrong."""

    policy: Policy = Policy.FAIR
    """Order of the queues: fair, aging or fifo."""
    order: Order = Order.FIFO
    """Order within a device queue: fifo, or lifo for those who want the freshest first."""
    aging_max_wait_seconds: int = Field(600, ge=1)
    """Waits beyond this count no more in the original's score (CELERY_MAC_AGING_MAX_WAIT_SECONDS)."""
    aging_weight: float = Field(1.0, gt=0)
    """Factor of the original's score (CELERY_MAC_AGING_WEIGHT)."""
    starvation_hint_seconds: float = Field(30.0, ge=0)
    """A candidate eligible for this long makes turns short (CELERY_MAC_STARVATION_HINT_SECONDS)."""
    batch_size: int = Field(10, ge=1, le=1000)
    """A turn's length in standard tasks (CELERY_MAC_SCHEDULER_BATCH_SIZE)."""
    min_batch_size: int = Field(1, ge=1, le=1000)
    """A turn's length while somebody starves (CELERY_MAC_SCHEDULER_MIN_BATCH_SIZE)."""
    device_in_flight: int = Field(0, ge=0)
    """Most tasks of one device running at once; 0: no limit."""
    lease_seconds: float = Field(60.0, gt=0)
    """A started task whose runner is silent for this long is given to another."""
    sweep_seconds: float = Field(5.0, gt=0)
    """How often expired leases are looked for."""
    max_attempts: int = Field(3, ge=1, le=100)
    """Failed tries before a task is dead."""
    backoff_base_seconds: float = Field(30.0, gt=0)
    """First back-off of a failed task or a deferred queue (CELERY_MAC_DEFER_BACKOFF_BASE)."""
    backoff_max_seconds: float = Field(600.0, gt=0)
    """Longest back-off (CELERY_MAC_DEFER_BACKOFF_MAX)."""
    failure_threshold: int = Field(5, ge=0)
    """Failed tasks in a row before a queue backs off, and then probes with one task at a time; 0: never."""
    no_runner: NoRunner = NoRunner.DEFER
    """What happens to a lane's queues while it has no healthy runner: defer, cpu_fallback or dead_letter."""
    gpu_lanes: Annotated[tuple[str, ...], NoDecode] = ()
    """Lanes that only runners with a GPU serve (with cpu_fallback: others too, while there is no such runner)."""
    max_defers: int = Field(5, ge=0)
    """Deferrals of a queue for want of a runner before its head is dead-lettered; 0: never."""
    task_ttl_seconds: int = Field(3600, ge=1)
    """A task not started within this time expires (CELERY_MAC_TASK_TTL_SECONDS)."""
    safety_tick_seconds: float = Field(1.0, gt=0, le=1)
    """The dispatcher looks this often even when nothing woke it: a wake-up token can die with its reader."""
    watermark_interval_seconds: float = Field(15.0, gt=0)
    """How often the system's level is published (CELERY_WATERMARK_PUBLISH_INTERVAL)."""
    watermark_ttl_seconds: float = Field(20.0, gt=0)
    """How long a published level is believed."""
    queue_meta_ttl_seconds: int = Field(600, ge=1)
    """How long an empty queue's virtual key is remembered."""
    dead_letters_kept: int = Field(10_000, ge=0)
    """Newest dead letters mirrored in Redis; PostgreSQL keeps all."""

    @field_validator("gpu_lanes", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return split_names(value)
