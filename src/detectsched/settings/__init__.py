"""Every setting, grouped per component, read once from ``DETECTSCHED_*``, validated whole, then frozen and passed in.

Nothing reads the environment later. ``docs/settings.md`` is generated from this package (``make docs``) and checked.
Names in parentheses are those of the original Celery design, whose defaults are kept.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Self

from pydantic import ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from detectsched.errors import ConfigurationError
from detectsched.settings.choices import EngineName, FramePolicy, LogFormat, NoRunner, Order, PaddleRuntime, Policy
from detectsched.settings.group import Group, split_names
from detectsched.settings.running import OcrSettings, RunnerSettings
from detectsched.settings.scheduling import SchedulerSettings
from detectsched.settings.serving import ApiSettings, LogSettings, ReportSettings, WebhookSettings
from detectsched.settings.stores import BlobSettings, EncryptionSettings, PostgresSettings, RedisSettings

__all__ = [
    "ENV_PREFIX",
    "NOT_SETTINGS",
    "ApiSettings",
    "BlobSettings",
    "EncryptionSettings",
    "EngineName",
    "FramePolicy",
    "Group",
    "LogFormat",
    "LogSettings",
    "NoRunner",
    "OcrSettings",
    "Order",
    "PaddleRuntime",
    "Policy",
    "PostgresSettings",
    "RedisSettings",
    "ReportSettings",
    "RunnerSettings",
    "SchedulerSettings",
    "Settings",
    "WebhookSettings",
    "environment_names",
    "load_settings",
]

ENV_PREFIX: Final = "DETECTSCHED_"

NOT_SETTINGS: Final = frozenset({"DETECTSCHED_URL", "DETECTSCHED_KEY"})
"""For the commands that call the HTTP API; whoever exports them may run daemons from the same shell."""


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
        return split_names(value)

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
