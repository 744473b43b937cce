"""The report of a comparison, as a table for people and as JSON for programs."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from typing import Any, Final

from rich.box import SIMPLE_HEAD
from rich.table import Column, Table

from detectsched import __version__
from detectsched.settings import SchedulerSettings
from detectsched.simulate.fairness import Fairness
from detectsched.simulate.measures import ClassFigures, Figures
from detectsched.simulate.run import Comparison

LOOK: Final[dict[str, Any]] = {"box": SIMPLE_HEAD, "pad_edge": False, "title_justify": "left", "title_style": "bold"}


def seconds_text(seconds: float) -> str:
    """Return a time as people read it: ``4.9 ms``, ``12.4 s``, ``1 h 03 min``."""
    if seconds < 0:
        return f"−{seconds_text(-seconds)}"
    if seconds < 0.9995:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 600:
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def environment_text(comparison: Comparison) -> str:
    """Return what is needed to get the same figures again."""
    return (
        f"detectsched {__version__}, seed {comparison.seed}, {len(comparison.tasks):,} tasks of "
        f"{len(comparison.tasks.devices):,} devices, Python {platform.python_version()}, {platform.machine()}"
    )


def formula_text(settings: SchedulerSettings) -> str:
    """Return the original's score with the settings in it."""
    return f"score = min(wait, {settings.aging_max_wait_seconds} s) × {settings.aging_weight:g}"


def json_document(comparison: Comparison, settings: SchedulerSettings) -> dict[str, Any]:
    """Return everything as plain data."""
    return {
        "workload": comparison.workload.name,
        "title": comparison.workload.title,
        "seed": comparison.seed,
        "tasks": len(comparison.tasks),
        "devices": len(comparison.tasks.devices),
        "aging_formula": formula_text(settings),
        "policies": [run.figures.as_json() for run in comparison.runs],
        "version": __version__,
    }


def tables(comparison: Comparison, settings: SchedulerSettings) -> Iterator[Table | str]:
    """Yield the tables of a report, policies side by side, and the lines between them."""
    yield f"{comparison.workload.title or comparison.workload.name}"
    figures = [run.figures for run in comparison.runs]
    yield _waits(figures)
    yield _lanes(figures)
    if any(one.policy == "aging" for one in figures):
        yield f"aging serves the highest {formula_text(settings)}; past the cap the oldest"
    if any(one.policy == "original" for one in figures):
        yield f"original is {formula_text(settings)} × the device's weight, to the letter; a model, not the scripts"
    yield environment_text(comparison)


def _waits(figures: list[Figures]) -> Table:
    table = Table(
        "policy",
        "class",
        *(
            _right(name)
            for name in ("tasks", "wait p50", "p95", "p99", "longest", "tasks/s", "work s", "over 1.1 × ideal")
        ),
        title="Waits, from arrival to first start",
        **LOOK,
    )
    for one in figures:
        classes = one.classes if len(one.classes) == 1 else (*one.classes, one.total)
        for number, kind in enumerate(classes):
            table.add_row(one.policy if number == 0 else "", *_class_row(kind))
    return table


def _class_row(kind: ClassFigures) -> Iterator[str]:
    yield kind.name
    lost = [f"{count:,} {word}" for count, word in ((kind.expired, "expired"), (kind.dead, "dead")) if count]
    yield f"{kind.tasks:,}" + (f" ({', '.join(lost)})" if lost else "")
    waits = kind.wait
    yield from (
        ("", "", "", "") if waits is None else map(seconds_text, (waits.p50, waits.p95, waits.p99, waits.longest))
    )
    yield f"{kind.rate:.1f}"
    yield f"{kind.work:,.1f}"
    yield "" if kind.over_ideal is None else seconds_text(kind.over_ideal)


def _lanes(figures: list[Figures]) -> Table:
    table = Table(
        "policy",
        "lane",
        *(_right(name) for name in ("slots used", "idle while work waited", "Jain devices", "Jain tenants")),
        *(_right(name) for name in ("all done", "restarts", "resumed")),
        title="Lanes",
        **LOOK,
    )
    for one in figures:
        for lane in one.lanes:
            table.add_row(
                one.policy if lane is one.lanes[0] else "",
                lane.lane,
                f"{lane.utilisation:.1%}",
                f"{lane.idle_with_work:.3f} s",
                _jain(lane.devices),
                _jain(lane.tenants),
                seconds_text(one.seconds),
                str(one.restarts),
                "–" if one.resumption is None else f"after {seconds_text(one.resumption)}",
            )
    return table


def _jain(fairness: Fairness | None) -> str:
    return "–" if fairness is None else f"{fairness.mean:.3f} (≥ {fairness.lowest:.3f})"


def _right(name: str) -> Column:
    return Column(name, justify="right", no_wrap=True)
