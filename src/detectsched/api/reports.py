"""Reports: what callers ask for."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from detectsched.api.bodies import Lane
from detectsched.api.detections import Category, Word
from detectsched.api.fields import Mac
from detectsched.api.moments import Moment
from detectsched.clock import utc_now
from detectsched.db.reports import Order, Period, Wanted
from detectsched.errors import InvalidRequest
from detectsched.settings import Settings
from detectsched.task import normalise_mac

_HOUR: Final = timedelta(hours=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class State(StrEnum):
    """How a task ended, or that a device detected by itself and reported it."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    DEAD = "dead"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    REPORTED = "reported"


class ReportFormat(StrEnum):
    """How a report is answered."""

    JSON = "json"
    """A page, for programs."""
    CSV = "csv"
    """All of it, for spreadsheets."""
    XLSX = "xlsx"
    """All of it, as an Excel workbook."""


class ReportQuery(BaseModel):
    """What all reports can be asked for; a misspelt filter is refused, since it would count everything."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    by: Period = Period.HOUR
    """Hours (of UTC), days (of `zone`), or all of it together."""
    since: Moment | None = None
    """From the hour that this time is in; without it a day before `until`, by days 30."""
    until: Moment | None = None
    """To the end of the hour that this time is in, unless it is a full hour; without it now."""
    zone: Annotated[str, StringConstraints(pattern=r"^(UTC|[A-Za-z_]{1,32}(/[A-Za-z0-9_+-]{1,32}){1,2})$")] = "UTC"
    """The time zone of days, as Asia/Shanghai."""
    lane: Lane | None = None
    """Only this lane."""
    order: Order = Order.TIME
    """The earliest first, or those of most tasks or hits."""
    format: ReportFormat | None = None
    """How to answer; without it as Accept says, else a page of JSON."""
    bom: bool = False
    """Begin CSV with a byte order mark, by which Excel knows that it is UTF-8."""
    cursor: Annotated[str, Field(max_length=1500)] | None = None
    """Where to go on: the `next_cursor` of the page before."""
    limit: Annotated[int, Field(ge=1, le=10_000)] = 1000
    """Most rows on a page of JSON; the other formats give all."""

    def wanted(self, tenant: str | None, settings: Settings, group: Sequence[str], filters: dict[str, Any]) -> Wanted:
        """Return what is asked of the sums.

        Raises:
            InvalidRequest: the times, the lane or the cursor cannot be.
        """
        if self.lane is not None and self.lane not in settings.lanes:
            raise InvalidRequest(
                f"there is no lane {self.lane!r}; the lanes are: {', '.join(settings.lanes)}", field="lane"
            )
        since, until = self._hours(settings)
        names = tuple(dict.fromkeys(group))
        return Wanted(
            tenant=tenant,
            period=self.by,
            zone=self.zone,
            since=since,
            until=until,
            group=names,
            filters={name: str(value) for name, value in {**filters, "lane": self.lane}.items() if value is not None},
            order=self.order,
            after=None if self.cursor is None else self._position(len(names)),
        )

    def _hours(self, settings: Settings) -> tuple[datetime, datetime]:
        until = self.until or utc_now()
        until = -((-(until - _EPOCH)) // _HOUR) * _HOUR + _EPOCH
        since = self.since or until - timedelta(days=1 if self.by is Period.HOUR else 30)
        since = (since - _EPOCH) // _HOUR * _HOUR + _EPOCH
        if since >= until:
            raise InvalidRequest("since is not before until: nothing can be between them", field="since")
        if until - since > timedelta(days=settings.reports.max_days, hours=1):
            raise InvalidRequest(
                f"a report covers up to {settings.reports.max_days} days: begin later, or end earlier", field="since"
            )
        return since, until

    def _position(self, groups: int) -> tuple[datetime | None, tuple[str, ...]]:
        wrong = InvalidRequest("this is no cursor of this report: use the next_cursor of a page", field="cursor")
        if self.order is not Order.TIME:
            raise InvalidRequest("pages go by time: leave order out, or ask for more rows at once", field="cursor")
        try:
            at, *names = json.loads(base64.b64decode(str(self.cursor), altchars=b"-_", validate=True))
            moment = None if at is None else datetime.fromisoformat(at)
        except (binascii.Error, ValueError, TypeError):
            raise wrong from None
        texts = tuple(name for name in names if isinstance(name, str) and "\0" not in name)
        is_total = self.by is Period.TOTAL
        if len(texts) != len(names) or len(names) != groups or (moment is None) is not is_total:
            raise wrong
        if moment is not None and moment.tzinfo is None:
            raise wrong
        return moment, texts


class TaskGroup(StrEnum):
    """What rows about tasks can be kept apart by."""

    MAC = "mac"
    """By device."""
    LANE = "lane"
    STATE = "state"


class TenantGroup(StrEnum):
    """What rows about tenants can be kept apart by."""

    LANE = "lane"
    STATE = "state"


class WordGroup(StrEnum):
    """What rows about words can be kept apart by."""

    CATEGORY = "category"
    WORD = "word"
    LANE = "lane"


class _TimedQuery(ReportQuery):
    quantiles: bool = True
    """Whether to tell p50, p95 and p99: most of the work, where many devices are shown over a long time."""

    def timed(self, wanted: Wanted) -> Wanted:
        """Return the same, with or without quantiles."""
        return replace(wanted, quantiles=self.quantiles)


class TaskReportQuery(_TimedQuery):
    """What a report about tasks shows."""

    group: Annotated[list[TaskGroup], Field(max_length=3)] = Field(default_factory=list)
    """What rows are kept apart by; several times for several."""
    mac: Mac | None = None
    """Only this device, in any usual spelling of its MAC address."""
    state: State | None = None
    """Only tasks that ended so."""

    def ask(self, tenant: str, settings: Settings) -> Wanted:
        """Return what is asked of the sums."""
        mac = None if self.mac is None else normalise_mac(self.mac)
        group = [name.value for name in self.group]
        return self.timed(self.wanted(tenant, settings, group, {"mac": mac, "state": self.state}))


class TenantReportQuery(_TimedQuery):
    """What a report about all tenants shows; its rows are kept apart by tenant."""

    group: Annotated[list[TenantGroup], Field(max_length=2)] = Field(default_factory=list)
    """What else rows are kept apart by; several times for several."""
    tenant: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,39}$")] | None = None
    """Only this tenant."""
    state: State | None = None
    """Only tasks that ended so."""

    def ask(self, settings: Settings) -> Wanted:
        """Return what is asked of the sums."""
        group = ["tenant", *(name.value for name in self.group)]
        return self.timed(self.wanted(self.tenant, settings, group, {"state": self.state}))


class WordReportQuery(ReportQuery):
    """What a report about words shows."""

    group: Annotated[list[WordGroup], Field(max_length=3)] = Field(default_factory=list)
    """What rows are kept apart by; several times for several."""
    category: Category | None = None
    """Only words of this category."""
    word: Word | None = None
    """Only this word."""

    def ask(self, tenant: str, settings: Settings) -> Wanted:
        """Return what is asked of the sums."""
        filters = {"category": self.category, "word": self.word}
        return self.wanted(tenant, settings, [name.value for name in self.group], filters)
