"""I8, I9 and I10: it heals in time, nothing grows, and the run has met what it set out to meet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from chaos.check.evidence import TERMINAL, Evidence
from chaos.history import Interval
from chaos.journal import Fault, Probe, Refused, Seen, Usage

RUNNER_KILLED: Final = "runner-killed"
HEALED_SECONDS: Final = 10.0
"""Within this time after a fault is healed, tasks end again."""
TICK_SECONDS: Final = 2.0
"""A sweep finds a task; a tick and a start later it runs again."""
BLIND_SECONDS: Final = 4.0
"""An outage longer than this must have been seen by the ready probe."""
GROWTH: Final = {"rss_mb": (1.10, 40.0), "fds": (1.10, 10.0), "connections": (1.10, 10.0), "redis_mb": (1.10, 4.0)}
"""Per amount: the factor and the absolute room by which it may be larger at the end than at the start."""


@dataclass(frozen=True, slots=True)
class Outage:
    """A fault from its begin to its end; equal where it was over at once."""

    name: str
    target: str
    begin: float
    end: float
    blinds: bool


def outages(evidence: Evidence) -> list[Outage]:
    """Return the faults of a run; one whose end is missing lasts for ever."""
    begun: dict[tuple[str, str], Fault] = {}
    found = []
    for fault in evidence.records(Fault):
        key = fault.name, fault.target
        if fault.phase == "begin":
            begun[key] = fault
        elif (first := begun.pop(key, None)) is not None:
            found.append(Outage(fault.name, fault.target, first.at, fault.at, first.blinds))
    found += [Outage(f.name, f.target, f.at, float("inf"), f.blinds) for f in begun.values()]
    return sorted(found, key=lambda each: each.begin)


def recoveries(evidence: Evidence) -> list[tuple[Outage, float | None]]:
    """Return, per fault, the seconds from its healing to the next end of a task; None if nothing was open then."""
    ends = sorted(change.at for change in evidence.changes if change.before == "running" and change.state in TERMINAL)
    starts = sorted(change.at for change in evidence.changes if change.before is None)
    found: list[tuple[Outage, float | None]] = []
    for outage in outages(evidence):
        after = next((at for at in ends if at >= outage.end), None)
        # Nobody had to work while nothing was there: the wait counts from when something came.
        work = _open_at(evidence, outage.end) or next((at for at in starts if at >= outage.end), None)
        found.append((outage, None if after is None or work is None else after - max(outage.end, min(work, after))))
    return found


def _open_at(evidence: Evidence, moment: float) -> float | None:
    """Return the moment if some task was open then."""
    opened = sum(change.before is None for change in evidence.changes if change.at <= moment)
    ended = sum(change.state in TERMINAL for change in evidence.changes if change.at <= moment)
    return moment if opened > ended else None


def restarts(evidence: Evidence) -> list[tuple[Outage, Interval, float]]:
    """Return, per task that a killed runner had, the seconds until it was taken from it or had ended."""
    kills = [outage for outage in outages(evidence) if outage.name == RUNNER_KILLED]
    return [
        (kill, interval, (interval.end if interval.end is not None else float("inf")) - kill.begin)
        for kill in kills
        for interval in evidence.intervals()
        if interval.runner is not None
        and interval.runner.split(":")[1:2] == [kill.target]
        and interval.begin <= kill.begin
        and (interval.end is None or interval.end > kill.begin)
    ]


def liveness(evidence: Evidence) -> Iterator[str]:
    """I8: all is over at rest; tasks end soon after each fault; a dead runner's tasks return within lease and sweep."""
    run = evidence.run
    if run is None:
        return
    for row in evidence.rows:
        if row.state not in TERMINAL:
            yield f"task {row.id} is still {row.state}"
    for refused in evidence.records(Refused):
        if refused.status not in {429, 503}:
            yield f"request {refused.key} was answered {refused.status}: an outage is 503, too much is 429"
    found = outages(evidence)
    for outage, seconds in recoveries(evidence):
        if seconds is not None and seconds > HEALED_SECONDS + run.lease:
            yield f"after {outage.name} {outage.target} the next task ended only {seconds:.1f} s later"
    for kill, interval, seconds in restarts(evidence):
        others = [each for each in found if each is not kill and each.end > kill.begin]
        meanwhile = [each for each in others if each.begin < kill.begin + seconds]
        # Each other fault may put it off for as long as it lasts, and by another lease where Redis was lost.
        allowed = run.lease + run.sweep + TICK_SECONDS
        allowed += sum(each.end - max(each.begin, kill.begin) + run.lease + TICK_SECONDS for each in meanwhile)
        if seconds > allowed:
            yield f"task {interval.task_id} came back {seconds:.1f} s after its runner was killed, not {allowed:.1f} s"
    yield from _unseen(found, evidence.records(Probe))


def _unseen(found: Sequence[Outage], probes: Sequence[Probe]) -> Iterator[str]:
    for outage in found:
        if outage.blinds and outage.end - outage.begin > BLIND_SECONDS:
            during = [probe for probe in probes if outage.begin < probe.at < outage.end]
            if all(probe.ready for probe in during):
                yield f"the API said that it was ready throughout {outage.name} ({len(during)} probes)"


def bounds(evidence: Evidence) -> Iterator[str]:
    """I9: at rest after the load, nothing uses more than before it."""
    usage: defaultdict[str, dict[str, Usage]] = defaultdict(dict)
    for record in evidence.records(Usage):
        usage[record.who][record.when] = record
    for who, moments in usage.items():
        if moments.keys() != {"start", "end"}:
            continue
        for name, before in moments["start"].amounts.items():
            after = moments["end"].amounts.get(name, before)
            factor, room = GROWTH[name]
            if after > max(before * factor, before + room):
                yield f"{who} has grown in {name} from {before:g} to {after:g}"


def sometimes(evidence: Evidence) -> Iterator[str]:
    """I10: every planned fault has happened, and every planned sight was seen."""
    run = evidence.run
    if run is None:
        return
    met = {fault.name for fault in evidence.records(Fault)}
    met |= {seen.what for seen in evidence.records(Seen) if seen.count}
    if any(row.attempts or row.fence > 1 for row in evidence.rows):
        met.add("redelivery")
    for name in run.expects:
        if name not in met:
            yield f"{name} was planned and never met"
