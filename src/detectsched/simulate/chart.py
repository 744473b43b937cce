"""Charts of a comparison as one SVG: work done over time and the distribution of waits, policy beside policy.

Plain SVG with a style sheet of its own: no library, no script, no font to load. It follows the reader's colour scheme,
and classes differ by their dashes as well as by colour.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

import numpy as np

from detectsched.simulate.arrivals import Floats
from detectsched.simulate.measures import waits_of
from detectsched.simulate.record import End
from detectsched.simulate.report import environment_text
from detectsched.simulate.run import Comparison, PolicyRun

_WIDTH: Final = 300  # of a panel's plot
_HEIGHT: Final = 170
_LEFT: Final = 58
_GAP: Final = 46
_TOP: Final = 94
_BETWEEN: Final = 66
_POINTS: Final = 240  # of a curve: more than the eye can tell apart at this width
_STEPS: Final = 60  # points up to which a curve is drawn in steps: between few tasks nothing rises
_SHORTEST: Final = 0.001  # seconds: waits are told from here on
_DASHES: Final = ("", "7 3", "2 3", "9 3 2 3", "1 2")

_STYLE: Final = """
.paper { fill: #ffffff } text { font: 12px system-ui, sans-serif; fill: #1f2328 } .faint { fill: #59636e }
.title { font-size: 15px; font-weight: 600 } .head { font-weight: 600 }
.end { text-anchor: end } .middle { text-anchor: middle }
.grid { stroke: #e5e7eb } .axis { stroke: #59636e } path { fill: none; stroke-width: 2 }
.c0 { stroke: #0b63b0 } .c1 { stroke: #b3380b } .c2 { stroke: #1a7f37 } .c3 { stroke: #7d3fb5 } .c4 { stroke: #8a6100 }
@media (prefers-color-scheme: dark) {
.paper { fill: #0d1117 } text { fill: #e6edf3 } .faint { fill: #9198a1 }
.grid { stroke: #30363d } .axis { stroke: #9198a1 }
.c0 { stroke: #6cb6ff } .c1 { stroke: #ff9a5c } .c2 { stroke: #57d364 } .c3 { stroke: #d2a8ff } .c4 { stroke: #e3b341 }
}
"""


@dataclass(frozen=True, slots=True)
class Axis:
    """Maps values to 0…1; ``marks`` are (value, label)."""

    low: float
    high: float
    marks: tuple[tuple[float, str], ...]
    logarithmic: bool = False

    def place(self, values: Floats) -> Floats:
        """Return where values lie, clipped to the axis."""
        low, high = (math.log10(self.low), math.log10(self.high)) if self.logarithmic else (self.low, self.high)
        scaled = np.log10(np.maximum(values, self.low)) if self.logarithmic else values
        placed: Floats = np.clip((scaled - low) / ((high - low) or 1.0), 0.0, 1.0)
        return placed


@dataclass(frozen=True, slots=True)
class Curve:
    """One class's line: ``x`` ascends."""

    kind: int
    x: Floats
    y: Floats


def comparison_svg(comparison: Comparison) -> str:
    """Return the charts of a comparison: a column per policy, rows of panels that share their axes."""
    kinds = [kind.name for kind in comparison.workload.classes]
    columns = [run.policy.value for run in comparison.runs]
    width = _LEFT + len(columns) * (_WIDTH + _GAP) - 12
    height = _TOP + 2 * (_HEIGHT + _BETWEEN) + 8
    work, work_y, work_label = _work_row(comparison)
    waits = [_wait_curves(comparison, run) for run in comparison.runs]
    time_axis = _linear(max(run.figures.seconds for run in comparison.runs), "s")
    wait_axis = _wait_axis(max((float(curve.x[-1]) for curves in waits for curve in curves), default=1.0))
    title = comparison.workload.title or comparison.workload.name
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(title)}">',
        f"<style>{_STYLE}</style>",
        f'<rect class="paper" width="{width}" height="{height}"/>',
        _text(12, 22, title, "title"),
        _legend(kinds),
    ]
    for number, name in enumerate(columns):
        left, first = _LEFT + number * (_WIDTH + _GAP), number == 0
        parts.append(_text(left + _WIDTH / 2, _TOP - 26, name, "head middle"))
        parts.append(_panel(left, _TOP, time_axis, work_y, work[number], first, work_label, "virtual time"))
        below = _TOP + _HEIGHT + _BETWEEN
        parts.append(_panel(left, below, wait_axis, _percent(), waits[number], first, "tasks started within", "wait"))
    parts.append(_text(12, height - 10, environment_text(comparison), "faint"))
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def _work_row(comparison: Comparison) -> tuple[list[list[Curve]], Axis, str]:
    """Return cumulative work per class, in seconds, or in shares where classes are too unlike for one scale."""
    tasks, kinds = comparison.tasks, len(comparison.workload.classes)
    totals = np.bincount(tasks.kind, weights=tasks.seconds, minlength=kinds)
    in_shares = float(totals.max()) > 20 * float(totals.min())
    rows = []
    for run in comparison.runs:
        curves = []
        for kind in range(kinds):
            mine = (tasks.kind == kind) & (run.record.end_state == End.DONE)
            order = np.argsort(run.record.ended_at[mine], kind="stable")
            done = np.cumsum(tasks.seconds[mine][order]) / (totals[kind] if in_shares else 1.0)
            curves.append(_thinned(kind, np.insert(run.record.ended_at[mine][order], 0, 0.0), np.insert(done, 0, 0.0)))
        rows.append(curves)
    axis = _percent() if in_shares else _linear(float(totals.max()), "s")
    return rows, axis, "work done of all its work" if in_shares else "work done"


def _wait_curves(comparison: Comparison, run: PolicyRun) -> list[Curve]:
    waits, kinds = waits_of(comparison.tasks, run.record), comparison.tasks.kind
    curves = []
    for kind in range(len(comparison.workload.classes)):
        ordered = np.sort(waits[kinds == kind])
        ordered = ordered[~np.isnan(ordered)]
        if len(ordered):
            curves.append(_thinned(kind, ordered, np.arange(1, len(ordered) + 1) / len(ordered)))
    return curves


def _thinned(kind: int, x: Floats, y: Floats) -> Curve:
    keep = np.unique(np.linspace(0, len(x) - 1, min(len(x), _POINTS)).astype(int))
    return Curve(kind, x[keep], y[keep])


def _percent() -> Axis:
    return Axis(0.0, 1.0, tuple((step / 4, f"{step * 25} %") for step in range(5)))


def _linear(highest: float, unit: str) -> Axis:
    step = 10 ** math.floor(math.log10(max(highest, 1e-9)))
    for factor in (0.2, 0.5, 1.0, 2.0, 5.0):
        if highest / (step * factor) <= 5:
            step *= factor
            break
    count = math.floor(highest / step + 1e-9)
    return Axis(0.0, highest, tuple((number * step, f"{number * step:g} {unit}") for number in range(count + 1)))


def _wait_axis(longest: float) -> Axis:
    last = max(1, math.ceil(math.log10(max(longest, _SHORTEST) / _SHORTEST) - 1e-9))
    names = ("1 ms", "10 ms", "0.1 s", "1 s", "10 s", "100 s", "1,000 s", "10,000 s")
    every = 1 if last < 6 else 2  # more labels than that would run into each other
    marks = tuple(
        (
            _SHORTEST * 10**power,
            "" if power % every else names[power] if power < len(names) else f"1e{power - 3} s",
        )
        for power in range(last + 1)
    )
    return Axis(_SHORTEST, _SHORTEST * 10**last, marks, logarithmic=True)


def _panel(
    left: float, top: float, x: Axis, y: Axis, curves: Sequence[Curve], first: bool, y_name: str, x_name: str
) -> str:
    parts = []
    for value, label in y.marks:
        at = top + _HEIGHT * (1 - float(y.place(np.array([value]))[0]))
        parts.append(f'<line class="grid" x1="{left}" x2="{left + _WIDTH}" y1="{at:.1f}" y2="{at:.1f}"/>')
        if first:
            parts.append(_text(left - 6, at + 4, label, "faint end"))
    for value, label in x.marks:
        at = left + _WIDTH * float(x.place(np.array([value]))[0])
        parts.append(f'<line class="axis" x1="{at:.1f}" x2="{at:.1f}" y1="{top + _HEIGHT}" y2="{top + _HEIGHT + 4}"/>')
        parts.append(_text(at, top + _HEIGHT + 17, label, "faint middle"))
    parts.append(f'<line class="axis" x1="{left}" x2="{left + _WIDTH}" y1="{top + _HEIGHT}" y2="{top + _HEIGHT}"/>')
    parts += [_path(left, top, x, y, curve) for curve in curves]
    parts.append(_text(left + _WIDTH / 2, top + _HEIGHT + 34, x_name, "middle"))
    if first:
        parts.append(_text(left, top - 8, y_name, ""))
    return "\n".join(parts)


def _path(left: float, top: float, x: Axis, y: Axis, curve: Curve) -> str:
    across, up = left + _WIDTH * x.place(curve.x), top + _HEIGHT * (1 - y.place(curve.y))
    # From nothing up to the first value, and on at the height of the last.
    start, end = f"M{across[0]:.1f},{top + _HEIGHT:.1f}", f"H{left + _WIDTH:.1f}"
    if len(across) <= _STEPS:
        drawn = " ".join(f"H{a:.1f} V{b:.1f}" for a, b in zip(across, up, strict=True))
    else:
        drawn = " ".join(f"L{a:.1f},{b:.1f}" for a, b in zip(across, up, strict=True))
    return f'<path {_look(curve.kind)} d="{start} {drawn} {end}"/>'


def _look(kind: int) -> str:
    dash = _DASHES[kind % len(_DASHES)]
    return f'class="c{kind % 5}"' + (f' stroke-dasharray="{dash}"' if dash else "")


def _legend(kinds: Sequence[str]) -> str:
    parts, at = [], 12.0
    for number, name in enumerate(kinds):
        parts.append(f'<path {_look(number)} d="M{at:.0f},39 L{at + 26:.0f},39"/>')
        parts.append(_text(at + 32, 43, name, ""))
        at += 32 + 7.5 * len(name) + 22
    return "\n".join(parts)


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'
