"""Detections that devices made by themselves: what they send, and what is shown of it."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import Field, RootModel, StringConstraints

from detectsched.api.bodies import RequestModel
from detectsched.api.fields import WHOLE, Mac
from detectsched.api.moments import Moment
from detectsched.api.problems import Problem
from detectsched.api.schemas import ResponseModel
from detectsched.db.models import Report
from detectsched.db.reported import NewReport, ReportedHit, StoredReport
from detectsched.settings import ReportSettings
from detectsched.task import normalise_mac

_MOST_HITS: Final = 500

ReportId = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[!-~]+$")]
Word = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00]+$")]
Category = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]{1,64}$")]


class DetectionKind(StrEnum):
    """What a device has examined."""

    TEXT = "text"
    IMAGE = "image"
    AUDIO = "audio"
    VIDEO = "video"
    OTHER = "other"


class DetectionHit(RequestModel):
    """A word that a device found."""

    word: Word
    """The word."""
    category: Category = "default"
    """What kind of word it is."""
    level: Annotated[int, Field(ge=1, le=100), WHOLE] = 1
    """How grave it is."""
    count: Annotated[int, Field(ge=1, le=1_000_000), WHOLE] = 1
    """How often it was found."""


class DetectionReport(RequestModel):
    """What a device has examined by itself, and found."""

    report_id: ReportId
    """Names this report: sent again it is stored once, however often."""
    mac: Mac
    """The device: a MAC address in any usual spelling."""
    kind: DetectionKind = DetectionKind.OTHER
    """What was examined."""
    detected_at: Moment | None = None
    """When, by the device's clock; without it, or where that cannot be, when the report came."""
    hits: Annotated[list[DetectionHit], Field(max_length=_MOST_HITS)] = Field(default_factory=list)
    """What was found; none is a report as well."""
    detector: Annotated[str, StringConstraints(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")] | None = None
    """What examined it, for people: a program and its version."""


class DetectionReports(RootModel[DetectionReport | Annotated[list[DetectionReport], Field(min_length=1)]]):
    """One report, or many."""


class DetectionReceipt(ResponseModel):
    """A report that is stored."""

    report_id: str
    detected_at: datetime
    """What it is counted under."""
    clock_was_wrong: bool
    """Whether the device gave a time that cannot be; then `detected_at` is when the report came."""
    received_at: datetime
    replayed: bool
    """Whether an earlier request had stored it."""


class DetectionOutcome(ResponseModel):
    """What became of one report of many: `detection` or `problem` is set."""

    line: int
    """Its line in the body, or its place in the array, from 1."""
    status: int
    """The HTTP status that it would have got as a request of its own."""
    detection: DetectionReceipt | None = None
    problem: Problem | None = None


class DetectionBatchOutcome(ResponseModel):
    """What became of many reports, one by one, in their order."""

    stored: int
    """Those that are stored, by this request or an earlier one."""
    refused: int
    results: list[DetectionOutcome]


class DetectionAnswer(RootModel[DetectionReceipt | DetectionBatchOutcome]):
    """A receipt for one report; for many, what became of each."""


class StoredHit(ResponseModel):
    """A word that a device found."""

    word: str
    category: str
    level: int
    count: int


class DetectionView(ResponseModel):
    """A report as it is stored."""

    report_id: str
    mac: str
    kind: DetectionKind
    detected_at: datetime
    clock_was_wrong: bool
    received_at: datetime
    hit_count: int
    """Words found, each as often as it was found."""
    top_level: int
    """The highest level among them; 0 without any."""
    hits: list[StoredHit]
    detector: str | None


class DetectionPage(ResponseModel):
    """Reports, the latest arrival first."""

    items: list[DetectionView]
    next_cursor: str | None
    """Give it as `cursor` to get the next page; null on the last."""


def new_report(sent: DetectionReport, settings: ReportSettings, *, now: datetime) -> NewReport:
    """Return a report as it is to be stored.

    A time ahead of ours by more than clocks differ, or further back than reports are late, is a wrong clock's: what
    was found must not be lost for it, and is counted under the time of its arrival.

    Raises:
        InvalidRequest: the MAC address is none.
    """
    mac = normalise_mac(sent.mac)
    document = sent.model_dump(mode="json") | {"mac": mac}
    at = sent.detected_at
    earliest, latest = now - timedelta(days=settings.max_late_days), now + timedelta(seconds=settings.max_ahead_seconds)
    is_wrong = at is not None and not earliest <= at <= latest
    extra: dict[str, Any] = {"detector": sent.detector, "detected_at": document["detected_at"]}
    return NewReport(
        report_id=sent.report_id,
        mac=mac,
        kind=sent.kind,
        detected_at=now if at is None or is_wrong else at,
        clock_was_wrong=is_wrong,
        hits=tuple(ReportedHit(hit.word, hit.category, hit.level, hit.count) for hit in sent.hits),
        request_hash=hashlib.sha256(json.dumps(document, sort_keys=True).encode()).digest(),
        extra=extra,
    )


def receipt(stored: StoredReport) -> DetectionReceipt:
    """Return what a device is told."""
    return DetectionReceipt(
        report_id=stored.report_id,
        detected_at=stored.detected_at,
        clock_was_wrong=stored.clock_was_wrong,
        received_at=stored.created_at,
        replayed=not stored.is_new,
    )


def view(row: Report) -> DetectionView:
    """Return a report as lists show it."""
    return DetectionView(
        report_id=row.report_id,
        mac=row.mac,
        kind=DetectionKind(row.kind),
        detected_at=row.detected_at,
        clock_was_wrong=row.clock_was_wrong,
        received_at=row.created_at,
        hit_count=row.hit_count,
        top_level=row.top_level,
        hits=[StoredHit(**hit) for hit in row.body.get("hits", [])],
        detector=row.body.get("detector"),
    )
