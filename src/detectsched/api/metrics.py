"""The API's figures for Prometheus.

No label names a tenant, a device or a task: whoever may read the figures learns of the system, not of others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from detectsched.db.deliveries import Totals
from detectsched.queueing.queue import WorkerRecord

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST

_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
REPAIRS: Final = ("unqueued", "ended", "places", "adrift", "counters", "alien")
"""The kinds of difference that the reconciler knows."""
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_SIZES: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


class Metrics:
    """A registry of its own, so that several servers may live in one process."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._level = _Level()
        self._runners = _Runners()
        self._registry.register(self._level)
        self._registry.register(self._runners)
        self._outbox = _Outbox()
        self._registry.register(self._outbox)
        self._requests = Counter(
            "detectsched_http_requests",
            "Requests answered.",
            ("route", "method", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "detectsched_http_request_seconds",
            "From a request's head to the end of its answer; long-polls included.",
            ("route", "method"),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._refusals = Counter(
            "detectsched_http_problems",
            "Requests, and lines of batches, that were answered with a problem, by its code.",
            ("code",),
            registry=self._registry,
        )
        self._encrypted = Counter(
            "detectsched_encrypted_requests",
            "Requests that came encrypted: opened, or why not.",
            ("outcome",),
            registry=self._registry,
        )
        self._groups = Histogram(
            "detectsched_accept_group_size",
            "Tasks whose rows went into one insert.",
            buckets=_SIZES,
            registry=self._registry,
        )

    def count_request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Note a request that is over; status 0 is one whose caller left before the answer."""
        # A method is whatever a stranger sends: no series for each.
        method = method if method in _METHODS else "other"
        self._requests.labels(route, method, str(status)).inc()
        self._seconds.labels(route, method).observe(seconds)

    def count_refusal(self, code: str) -> None:
        """Note a problem that was told."""
        self._refusals.labels(code).inc()

    def count_encrypted(self, outcome: str) -> None:
        """Note an encrypted request: opened, or the reason why it cannot be."""
        self._encrypted.labels(outcome).inc()

    def count_group(self, size: int) -> None:
        """Note how many rows one insert wrote."""
        self._groups.observe(size)

    def render(self, level: Mapping[str, int] | None, runners: Sequence[WorkerRecord], outbox: Totals | None) -> bytes:
        """Return everything as text.

        ``level`` is what `Queue.level` says, None while Redis is away; ``outbox`` is None while PostgreSQL is.
        """
        self._level.now, self._runners.now, self._outbox.now = level, runners, outbox
        return generate_latest(self._registry)


class _Level(Collector):
    """What Redis counts; absent rather than stale while it is away."""

    def __init__(self) -> None:
        self.now: Mapping[str, int] | None = None

    def collect(self) -> Iterable[Metric]:
        """Yield the figures of the last look."""
        level = self.now
        yield GaugeMetricFamily("detectsched_redis_up", "Whether Redis answered.", value=int(level is not None))
        if level is None:
            return
        yield GaugeMetricFamily("detectsched_pending_tasks", "Tasks waiting.", value=level["total_pending"])
        yield GaugeMetricFamily(
            "detectsched_pending_subjects", "Devices and objects with tasks waiting.", value=level["mac_count"]
        )
        outstanding = GaugeMetricFamily(
            "detectsched_outstanding_tasks", "Tasks handed to a lane's runners and not completed.", labels=["lane"]
        )
        completed = CounterMetricFamily(
            "detectsched_completed_tasks", "Tasks completed in a lane since Redis' data were made.", labels=["lane"]
        )
        repairs = CounterMetricFamily(
            "detectsched_repairs", "What ledger and queues disagreed about, by kind; should stay 0.", labels=["kind"]
        )
        for kind in REPAIRS:
            repairs.add_metric([kind], level.get(f"repaired:{kind}", 0))
        yield repairs
        for name, value in level.items():
            family, _, lane = name.partition(":")
            if lane and family != "repaired":
                (outstanding if family == "outstanding" else completed).add_metric([lane], value)
        yield outstanding
        yield completed


class _Runners(Collector):
    """What the runners say of themselves; a runner that has gone is absent."""

    _COUNTS: Final = {
        "images_read": "Images that its engines have read.",
        "images_reused": "Images whose text was known from an identical one.",
        "images_poison": "Images given up on for crashing engines.",
        "engines_replaced": "Engine processes that died or were worn, and were replaced.",
        "fenced": "Starts whose result was refused, or not written, since their task had passed to another.",
    }
    _GAUGES: Final = {
        "empty_share": "Share of the images read lately that had no text.",
        "empty_alarm": "1 while far more images than usual come back without text.",
        "gpu_available": "GPUs that its engines work on.",
    }

    def __init__(self) -> None:
        self.now: Sequence[WorkerRecord] = ()

    def collect(self) -> Iterable[Metric]:
        """Yield the figures of the last look."""
        counts = {
            name: CounterMetricFamily(f"detectsched_runner_{name}", text, labels=["runner"])
            for name, text in self._COUNTS.items()
        }
        gauges = {
            name: GaugeMetricFamily(f"detectsched_runner_{name}", text, labels=["runner"])
            for name, text in self._GAUGES.items()
        }
        families = counts | gauges
        for runner in self.now:
            for name, family in families.items():
                family.add_metric([runner.name], getattr(runner, name))
        yield from families.values()


class _Outbox(Collector):
    """What PostgreSQL holds for webhooks and callbacks, of all tenants; absent rather than stale while it is away."""

    def __init__(self) -> None:
        self.now: Totals | None = None

    def collect(self) -> Iterable[Metric]:
        """Yield the figures of the last look."""
        totals = self.now
        if totals is None:
            return
        messages = GaugeMetricFamily(
            "detectsched_webhook_messages",
            "Messages to webhooks and callbacks that are not delivered.",
            labels=["state"],
        )
        messages.add_metric(["pending"], totals.pending)
        messages.add_metric(["dead"], totals.dead)
        yield messages
        attempts = CounterMetricFamily(
            "detectsched_webhook_attempts", "Attempts to send one, by how they ended.", labels=["outcome"]
        )
        attempts.add_metric(["delivered"], totals.delivered)
        attempts.add_metric(["failed"], totals.failed)
        yield attempts
