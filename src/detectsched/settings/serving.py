"""The HTTP API, what it reports, and what is sent to others."""

from __future__ import annotations

import ipaddress
from ipaddress import ip_network
from typing import Annotated, Any, Self

from pydantic import Field, field_validator, model_validator
from pydantic_settings import NoDecode

from detectsched.settings.choices import LogFormat
from detectsched.settings.group import Group, split_names


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
        return split_names(value)

    @field_validator("image_url_networks")
    @classmethod
    def _networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for network in value:
            ipaddress.ip_network(network)
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
        return split_names(value)

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
