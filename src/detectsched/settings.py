"""Every setting, grouped per component, read once from ``DETECTSCHED_*``, validated whole, then frozen and passed in.

Nothing reads the environment later. ``docs/settings.md`` is generated from this file (``make docs``) and checked.
Names in parentheses are those of the original Celery design, whose defaults are kept.
"""

from __future__ import annotations

import base64
import difflib
import ipaddress
import os
from collections.abc import Iterator, Mapping
from enum import StrEnum
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from detectsched.errors import ConfigurationError

ENV_PREFIX: Final = "DETECTSCHED_"

NOT_SETTINGS: Final = frozenset({"DETECTSCHED_URL", "DETECTSCHED_KEY"})
"""For the commands that call the HTTP API; whoever exports them may run daemons from the same shell."""


class Policy(StrEnum):
    """In which order queues are served."""

    FAIR = "fair"
    """Start-time fair queueing: equal shares of work per tenant, then per queue."""
    AGING = "aging"
    """The original's formula: the queue whose head has waited longest."""
    FIFO = "fifo"
    """Global order of arrival, for comparison."""


class Order(StrEnum):
    """In which order the tasks of one device queue are taken (object queues are always FIFO)."""

    FIFO = "fifo"
    LIFO = "lifo"


class NoRunner(StrEnum):
    """What happens to a lane's queues while it has no healthy runner."""

    DEFER = "defer"
    """They back off; past max_defers the head is a dead letter."""
    CPU_FALLBACK = "cpu_fallback"
    """A lane for GPUs is served by CPU runners meanwhile; without any, as defer."""
    DEAD_LETTER = "dead_letter"
    """Their heads are dead letters at once."""


class EngineName(StrEnum):
    """The OCR engines that are built in."""

    AUTO = "auto"
    """What the machine has: rapidocr where it is installed, else paddle."""
    RAPIDOCR = "rapidocr"
    PADDLE = "paddle"


class FramePolicy(StrEnum):
    """Which frames of an animation, or pages of a file with several, are read."""

    FIRST = "first"
    SAMPLE = "sample"
    """All if there are no more than max_frames; else as many, evenly spread, the first and the last among them."""
    ALL = "all"
    """All; a file with more than max_frames is refused."""


class LogFormat(StrEnum):
    """How log lines look."""

    AUTO = "auto"
    """Console on a terminal, JSON elsewhere."""
    CONSOLE = "console"
    JSON = "json"


def _split_names(value: Any) -> Any:
    return tuple(value.replace(",", " ").split()) if isinstance(value, str) else value


class Group(BaseModel):
    """A component's settings: unknown names are refused, values are frozen."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, use_attribute_docstrings=True)


class RedisSettings(Group):
    """Redis or Valkey: the working memory."""

    url: SecretStr = SecretStr("redis://127.0.0.1:6379/0")
    """Where Redis 7 or Valkey 8 and later listens: redis://, rediss:// or unix://."""
    prefix: str = Field("sensitive", pattern=r"^[a-z0-9_-]{1,32}$")
    """First part of every key."""
    max_connections: int = Field(200, ge=4, le=10_000)
    """Connections one process may open; redis-py raises at once when they are used up."""
    socket_timeout_seconds: float = Field(5.0, gt=0, le=60)
    """How long one command may take; blocking reads have a client of their own with a longer limit."""
    connect_timeout_seconds: float = Field(3.0, gt=0, le=60)
    """How long opening a connection may take."""


class PostgresSettings(Group):
    """PostgreSQL: the ledger."""

    url: SecretStr = SecretStr("postgresql://postgres@127.0.0.1:5432/detectsched")
    """Where PostgreSQL 15 or later listens."""
    pool_size: int = Field(10, ge=1, le=500)
    """Connections one process keeps for the hot paths (accept, start, result)."""
    read_pool_size: int = Field(5, ge=1, le=500)
    """Connections one process keeps for reads and administration (pool_size of the original)."""
    read_pool_overflow: int = Field(10, ge=0, le=500)
    """Connections beyond read_pool_size in a burst (max_overflow)."""
    pool_timeout_seconds: float = Field(10.0, gt=0, le=300)
    """How long a caller waits for a free connection before it is told 503 (pool_timeout)."""
    pool_recycle_seconds: int = Field(1800, ge=10)
    """A read connection older than this is replaced (pool_recycle)."""
    command_timeout_seconds: float = Field(15.0, gt=0, le=600)
    """How long one statement may take."""


class BlobSettings(Group):
    """Where images are kept."""

    url: str = "file:./data/blobs"
    """file:PATH for a local directory, s3://BUCKET/PREFIX for S3 and what speaks it (credentials from AWS_*)."""


class ApiSettings(Group):
    """The HTTP API."""

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = Field(8080, ge=0, le=65_535)
    """Port to listen on; 0 takes a free one."""
    max_total_pending: int = Field(5000, ge=1)
    """More waiting tasks than this in all: 503 (CELERY_MAX_TOTAL_PENDING)."""
    max_per_mac_pending: int = Field(200, ge=1)
    """More waiting tasks than this of one device: 429 for that device (CELERY_MAX_PER_MAC_PENDING)."""
    overload_release_ratio: float = Field(0.8, gt=0, le=1)
    """A device listed as overloaded is released when its backlog falls to this share of the limit."""
    retry_after_seconds: int = Field(30, ge=1, le=3600)
    """The fallback for Retry-After while no drain rate has been measured (retry_after)."""
    max_retry_after_seconds: int = Field(600, ge=1, le=86_400)
    """No computed Retry-After is longer."""
    max_text_bytes: int = Field(1_048_576, ge=1)
    """Longest text, in bytes of UTF-8."""
    max_image_bytes: int = Field(20_971_520, ge=1)
    """Largest image file."""
    max_image_pixels: int = Field(40_000_000, ge=64)
    """Largest image, width times height, as its header says."""
    max_batch_bytes: int = Field(67_108_864, ge=1)
    """Largest NDJSON batch."""
    max_batch_lines: int = Field(10_000, ge=1)
    """Most lines in an NDJSON batch."""
    max_wait_seconds: float = Field(60.0, ge=0, le=600)
    """Longest long-poll (wait=)."""
    max_command_waiters: int = Field(10_000, ge=1)
    """Most long-polls of devices and objects for their commands in one process; beyond: 503."""
    key_cache_seconds: float = Field(10.0, ge=0, le=300)
    """How long a looked-up API key is believed; a revoked key works no longer than this."""
    grace_seconds: float = Field(10.0, ge=0, le=600)
    """How long open requests may go on after a stop was asked for."""
    group_commit_max: int = Field(500, ge=1, le=5000)
    """Most requests whose rows go into one insert."""
    image_url: bool = False
    """Take images by URL (image_url): the API then fetches what strangers name, over https from the public Internet."""
    image_url_networks: Annotated[tuple[str, ...], NoDecode] = ()
    """Networks that are not public and may be fetched from all the same, as 10.1.0.0/16, separated by commas."""
    image_url_seconds: float = Field(10.0, gt=0, le=120)
    """How long fetching one image may take, waiting for its turn included."""
    image_url_at_once: int = Field(16, ge=1, le=1000)
    """Images one API process fetches at once."""
    scaling_target_seconds: float = Field(60.0, gt=0, le=86_400)
    """Within this time a lane's backlog should be worked off: what autoscaling asks runners for."""

    @field_validator("image_url_networks", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return _split_names(value)

    @field_validator("image_url_networks")
    @classmethod
    def _networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for network in value:
            ipaddress.ip_network(network)
        return value


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
        return _split_names(value)


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
        return _split_names(value)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.gpus and not self.gpu:
            raise ValueError("ocr.gpus names GPUs, but ocr.gpu is off")
        if len(set(self.gpus)) < len(self.gpus):
            raise ValueError("ocr.gpus names a GPU twice; for more processes on each, raise runner.ocr_slots")
        return self


class EncryptionSettings(Group):
    """Encrypted requests, and what is encrypted at rest."""

    master_keys: SecretStr = SecretStr("")
    """Master keys, 32 random bytes in base64 each, with commas; the first seals, the others only open; empty: none."""
    clock_skew_seconds: float = Field(60.0, ge=0, le=600)
    """How far a sender's clock may be off when it says when an encrypted request was made and when it ends."""
    max_lifetime_seconds: float = Field(3600.0, gt=0, le=604_800)
    """Longest time from iat to exp of an encrypted request."""

    @field_validator("master_keys")
    @classmethod
    def _check_keys(cls, value: SecretStr) -> SecretStr:
        for place, text in enumerate(_split_names(value.get_secret_value()), start=1):
            try:
                good = len(base64.b64decode(text, validate=True)) == 32
            except ValueError:
                good = False
            if not good:
                # Without its text: the message goes to a terminal or a log.
                raise ValueError(f"key {place} is not 32 bytes in base64; make one with: openssl rand -base64 32")
        return value


class WebhookSettings(Group):
    """What is told to webhooks and to the callbacks of tasks."""

    allow_http: bool = False
    """Take http:// URLs as well: for receivers inside a network that is trusted."""
    allow_networks: Annotated[tuple[str, ...], NoDecode] = ()
    """Networks that are not public and may be spoken to all the same, as 10.1.0.0/16, separated by commas: whoever may
    name a URL reaches them."""
    ports: Annotated[tuple[str, ...], NoDecode] = ("443",)
    """Ports that URLs may name, separated by commas; empty: any."""
    max_per_tenant: int = Field(20, ge=1, le=1000)
    """Most webhooks of one tenant."""
    timeout_seconds: float = Field(15.0, gt=0, le=120)
    """How long one attempt may take in all."""
    claim_seconds: float = Field(60.0, gt=0, le=3600)
    """What a dispatcher was sending when it died is sent by another after this time."""
    max_in_flight: int = Field(64, ge=1, le=1000)
    """Messages one dispatcher sends at once."""
    max_in_flight_per_tenant: int = Field(32, ge=1, le=1000)
    """Of these for one tenant, so that the slow receivers of one do not hold up the others' messages."""
    max_in_flight_per_endpoint: int = Field(4, ge=1, le=100)
    """Of these to one webhook, or to one host of a tenant's callbacks: a slow one does not hold up the others."""
    max_attempts: int = Field(12, ge=1, le=100)
    """Attempts before a message is dead; by the defaults the last one is about a day after the first."""
    max_age_seconds: float = Field(259_200.0, ge=1)
    """A message that could not be delivered within this time is dead."""
    backoff_base_seconds: float = Field(5.0, gt=0)
    """Wait after the first failed attempt; three times as long after each further one, up to half of it by chance."""
    backoff_max_seconds: float = Field(21_600.0, gt=0)
    """Longest wait between attempts, also when Retry-After asks for more."""
    secret_overlap_seconds: float = Field(86_400.0, ge=0, le=2_592_000)
    """How long a replaced secret still signs as well, so that receivers can change over."""

    @field_validator("ports", "allow_networks", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return _split_names(value)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not all(port.isascii() and port.isdigit() and 0 < int(port) < 65_536 for port in self.ports):
            raise ValueError("ports are whole numbers from 1 to 65535")
        for network in self.allow_networks:
            ip_network(network)
        if self.claim_seconds < 2 * self.timeout_seconds:
            raise ValueError("claim_seconds must be at least 2 × timeout_seconds")
        return self


class ReportSettings(Group):
    """Statistics, exports, the audit log."""

    count_seconds: float = Field(2.0, gt=0, le=3600)
    """How often what has ended is counted into the statistics."""
    count_batch: int = Field(1000, ge=1, le=10_000)
    """Most tasks counted in one transaction."""
    keep_days: int = Field(1100, ge=2, le=36_500)
    """How long hourly sums by lane and state are kept."""
    keep_detail_days: int = Field(100, ge=2, le=36_500)
    """How long hourly sums by device and by word are kept."""
    keep_audit_days: int = Field(0, ge=0, le=36_500)
    """How long entries of the audit log are kept; 0: for ever."""
    max_late_days: int = Field(31, ge=1, le=365)
    """A detection that a device reports later than this counts when it is reported: its clock must be wrong."""
    max_ahead_seconds: float = Field(300.0, ge=0, le=86_400)
    """How far a device's clock may be ahead; what it dates later counts when it is reported."""
    max_days: int = Field(400, ge=1, le=3660)
    """Longest time that one report covers."""
    exports_at_once: int = Field(2, ge=1, le=100)
    """Exports that one API process writes at a time, each with a connection of its own; more are told 503."""
    export_seconds: float = Field(900.0, gt=0, le=86_400)
    """An export that takes longer is broken off: a caller that reads slowly must not hold a connection for ever."""


class LogSettings(Group):
    """Logs go to standard error."""

    level: str = Field("info", pattern="^(debug|info|warning|error)$")
    """Least severe level that is written."""
    format: LogFormat = LogFormat.AUTO
    """auto, console or json."""


class Settings(BaseSettings):
    """All settings of a process."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX,
        env_nested_delimiter="_",
        env_nested_max_split=1,
        frozen=True,
        extra="ignore",
        use_attribute_docstrings=True,
    )

    lanes: Annotated[tuple[str, ...], NoDecode] = ("ocr", "text")
    """The lanes that exist, separated by commas."""
    failpoints: str = ""
    """For tests: where a process shall die, hang or fail (`failpoints`)."""
    redis: RedisSettings = RedisSettings()
    postgres: PostgresSettings = PostgresSettings()
    blobs: BlobSettings = BlobSettings()
    api: ApiSettings = ApiSettings()
    scheduler: SchedulerSettings = SchedulerSettings()
    runner: RunnerSettings = RunnerSettings()
    ocr: OcrSettings = OcrSettings()
    encryption: EncryptionSettings = EncryptionSettings()
    webhooks: WebhookSettings = WebhookSettings()
    reports: ReportSettings = ReportSettings()
    log: LogSettings = LogSettings()

    @field_validator("lanes", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return _split_names(value)

    @model_validator(mode="after")
    def _check_across_groups(self) -> Self:
        scheduler, runner = self.scheduler, self.runner
        if not {"ocr", "text"} <= set(self.lanes):
            raise ValueError("lanes must contain ocr and text: images and texts go there unless told otherwise")
        if not all(name.isidentifier() and name.islower() and len(name) <= 32 for name in self.lanes):
            raise ValueError("a lane's name is up to 32 lower-case letters, digits and underscores")
        if not set(scheduler.gpu_lanes) <= set(self.lanes):
            raise ValueError("scheduler.gpu_lanes names a lane that is not in lanes")
        if scheduler.min_batch_size > scheduler.batch_size:
            raise ValueError("scheduler.min_batch_size must not exceed scheduler.batch_size")
        if scheduler.lease_seconds < 3 * runner.heartbeat_seconds:
            raise ValueError("scheduler.lease_seconds must be at least 3 × runner.heartbeat_seconds")
        if runner.ttl_seconds < 3 * runner.heartbeat_seconds:
            raise ValueError("runner.ttl_seconds must be at least 3 × runner.heartbeat_seconds")
        if scheduler.backoff_base_seconds > scheduler.backoff_max_seconds:
            raise ValueError("scheduler.backoff_base_seconds must not exceed scheduler.backoff_max_seconds")
        if self.reports.keep_detail_days > self.reports.keep_days:
            raise ValueError("reports.keep_detail_days must not exceed reports.keep_days")
        if scheduler.watermark_ttl_seconds <= scheduler.watermark_interval_seconds:
            raise ValueError("scheduler.watermark_ttl_seconds must exceed scheduler.watermark_interval_seconds")
        return self


def environment_names() -> Iterator[tuple[str, str, str]]:
    """Yield (variable, group, field) for every setting; the group of a top-level setting is empty."""
    for name, field in Settings.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Group):
            for inner in field.annotation.model_fields:
                yield f"{ENV_PREFIX}{name}_{inner}".upper(), name, inner
        else:
            yield f"{ENV_PREFIX}{name}".upper(), "", name


def load_settings(environment: Mapping[str, str] | None = None, **overrides: Any) -> Settings:
    """Read and validate all settings at once.

    Args:
        environment: looked at for misspelt names only; values come from the process environment.
        overrides: groups or top-level settings that win over the environment (from the command line).

    Raises:
        ConfigurationError: one message naming every wrong or unknown variable and what it should be.
    """
    known = {name for name, _, _ in environment_names()} | NOT_SETTINGS
    problems = [
        f"{name} is not a setting" + (f"; did you mean {close[0]}?" if close else "")
        for name in sorted(environment if environment is not None else os.environ)
        if name.startswith(ENV_PREFIX) and name not in known
        for close in [difflib.get_close_matches(name, known - NOT_SETTINGS, n=1)]
    ]
    try:
        settings = Settings(**overrides)
    except ValidationError as error:
        problems += [
            f"{ENV_PREFIX}{'_'.join(map(str, item['loc']))}".upper().rstrip("_") + f": {item['msg']}"
            for item in error.errors(include_url=False, include_input=False)
        ]
    else:
        if not problems:
            return settings
    raise ConfigurationError("wrong settings:\n  " + "\n  ".join(problems))
