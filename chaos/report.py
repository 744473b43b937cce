"""What a run came to, for people and for docs/reliability.md."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from chaos.check.recovery import outages, recoveries, restarts
from chaos.journal import Accepted, Asked, Refused, Seen, Unknown
from chaos.run import Outcome


def report(outcome: Outcome, seed: int) -> str:
    """Return the report as Markdown."""
    return "\n".join(_lines(outcome, seed)) + "\n"


def _lines(outcome: Outcome, seed: int) -> Iterator[str]:
    evidence = outcome.evidence
    states = Counter(row.state for row in evidence.rows)
    yield f"Seed {seed}; {', '.join(outcome.versions.values())}; {outcome.seconds:.0f} s."
    yield ""
    yield f"Tasks: {len(evidence.rows)} ({', '.join(f'{count} {state}' for state, count in sorted(states.items()))})."
    requests = {
        "requests": len(evidence.records(Asked)),
        "accepted": len(evidence.records(Accepted)),
        "refused": len(evidence.records(Refused)),
        "without an answer": len(evidence.records(Unknown)),
    }
    yield f"The client saw: {', '.join(f'{count} {what}' for what, count in requests.items())}."
    starts = sum(change.state == "running" for change in evidence.changes)
    yield f"Starts: {starts}; failed tries: {sum(row.attempts for row in evidence.rows)}."
    yield "Seen in the logs: " + ", ".join(f"{seen.count} {seen.what}" for seen in evidence.records(Seen)) + "."
    if taken := [seconds for _, _, seconds in restarts(evidence)]:
        yield f"Tasks of killed runners: {len(taken)}, the last taken back or over after {max(taken):.1f} s."
    yield ""
    yield from _table(outcome)
    yield ""
    for name, wrong in outcome.violations.items():
        yield f"- {name}: {'holds' if not wrong else f'{len(wrong)} violations'}"
        yield from (f"  - {line}" for line in wrong[:20])
    for name, statuses in outcome.deaths.items():
        yield f"- {name} ended by itself: {statuses}"


def _table(outcome: Outcome) -> Iterator[str]:
    found: defaultdict[str, list[float]] = defaultdict(list)
    counts = Counter(outage.name for outage in outages(outcome.evidence))
    for outage, seconds in recoveries(outcome.evidence):
        if seconds is not None:
            found[outage.name].append(seconds)
    yield "| fault | times | worst recovery (s) |"
    yield "| --- | ---: | ---: |"
    for name, count in sorted(counts.items()):
        worst = f"{max(found[name]):.2f}" if found[name] else "nothing was open"
        yield f"| {name} | {count} | {worst} |"
