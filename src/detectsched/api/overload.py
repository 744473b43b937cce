"""Refuses early when too much waits, with the truth: whose backlog it is, and when there will be room again.

See docs/decisions/0003-overload-answers.md.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from detectsched.clock import monotonic
from detectsched.db.group_commit import GroupCommit
from detectsched.errors import DeviceOverloaded, Overloaded, StoreUnavailable, SystemOverloaded
from detectsched.queueing.queue import Admission, Queue, Verdict
from detectsched.settings import ApiSettings

_BELIEVED_SECONDS: Final = 1.0
"""How long a fetched watermark is used: it is published every 15 s, and overload means many refusals a second."""
_JITTER: Final = 0.1
"""Those who are refused together shall not return together."""


@dataclass(frozen=True, slots=True)
class Drain:
    """How fast the system works off what waits, and how many devices share that."""

    per_second: float
    devices: int


def drain_of(watermark: str | None) -> Drain | None:
    """Return the measured drain rate that a watermark holds; None where nothing drains or nothing was measured."""
    try:
        document = json.loads(watermark or "null")
        rate, devices = float(document["drain_per_second"]), int(document["mac_count"])
    except (ValueError, TypeError, KeyError):
        return None
    return Drain(rate, max(1, devices)) if rate > 0 and math.isfinite(rate) else None


def seconds_until_room(excess: float, drain: Drain, *, shared: bool) -> float:
    """Return how long it takes to work off ``excess`` tasks.

    Args:
        excess: tasks above the level at which work is accepted again.
        drain: of the whole system.
        shared: whether they are one device's, which gets its fair share of the drain only.
    """
    rate = drain.per_second / drain.devices if shared else drain.per_second
    return max(0.0, excess) / rate


class Overload:
    """Asks Redis for many requests at once, in O(1) for each: counters only."""

    def __init__(
        self, queue: Queue, settings: ApiSettings, *, max_items: int, now: Callable[[], float] = monotonic
    ) -> None:
        self._queue = queue
        self._settings = settings
        self._now = now
        self._admissions: GroupCommit[str, Admission] = GroupCommit(self._admit, max_items=max_items)
        self._drain: Drain | None = None
        self._drain_until = 0.0
        self._release = math.floor(settings.max_per_mac_pending * settings.overload_release_ratio)

    async def check(self, subject: str, whose: str) -> None:
        """Return if there is room for one more task of a subject.

        Args:
            subject: what its backlog is counted under, as `subject_of` gives it.
            whose: the same for people, as in "device aa:bb:…".

        Raises:
            DeviceOverloaded: too much of this device (or object) waits.
            SystemOverloaded: too much waits in all.
            StoreUnavailable: nobody knows.
        """
        admission = await self._admissions.submit(subject)
        if admission.verdict is not Verdict.OK:
            raise self._refusal(admission, whose, await self._measured_drain())

    async def room(self) -> int:
        """Return how many tasks more fit before new work would be refused, with the usual reserve left free for it.

        Raises:
            SystemOverloaded: none.
            StoreUnavailable: nobody knows.
        """
        settings = self._settings
        waiting = await self._queue.views.backlog()
        room = math.floor(settings.max_total_pending * settings.overload_release_ratio) - waiting
        if room <= 0:
            raise self._refusal(Admission(Verdict.SYSTEM, waiting, 0), "", await self._measured_drain())
        return room

    async def _admit(self, subjects: Sequence[str]) -> list[Admission]:
        return await self._queue.scripts.admit(
            [(subject, 1) for subject in subjects],
            max_total=self._settings.max_total_pending,
            max_subject=self._settings.max_per_mac_pending,
            release=self._release,
        )

    def _refusal(self, admission: Admission, whose: str, drain: Drain | None) -> Overloaded:
        settings = self._settings
        if admission.verdict is Verdict.SYSTEM:
            room_at = settings.max_total_pending * settings.overload_release_ratio
            wait = self._retry_after(admission.total_pending - room_at, drain, shared=False)
            return SystemOverloaded(
                f"{admission.total_pending} tasks wait in all, more than {settings.max_total_pending}; "
                f"there should be room in about {wait} s",
                retry_after=wait,
            )
        wait = self._retry_after(admission.subject_pending - self._release, drain, shared=True)
        return DeviceOverloaded(
            f"{admission.subject_pending} tasks of {whose} wait; after more than {settings.max_per_mac_pending} it is "
            f"taken again at {self._release}, in about {wait} s",
            retry_after=wait,
        )

    def _retry_after(self, excess: float, drain: Drain | None, *, shared: bool) -> int:
        """Return whole seconds, at least one."""
        if drain is None:
            return self._settings.retry_after_seconds
        wait = seconds_until_room(excess, drain, shared=shared)
        wait *= random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311 - not a secret
        return max(1, math.ceil(min(wait, self._settings.max_retry_after_seconds)))

    async def _measured_drain(self) -> Drain | None:
        if self._now() >= self._drain_until:
            self._drain_until = self._now() + _BELIEVED_SECONDS
            try:
                self._drain = drain_of(await self._queue.watermark())
            except StoreUnavailable:
                self._drain = None
        return self._drain
