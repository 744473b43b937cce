"""I7: between queues that are backlogged all the time, service in cost differs by a bound (promise 5 of the design).

Judged on the history of starts, between faults: a queue counts as backlogged while more of its tasks wait than there
are slots, since so many may have left Redis and not yet be running.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from chaos.check.evidence import Evidence
from chaos.history import Change
from chaos.journal import Fault, Run

JAIN: Final = 0.98
ROUNDS: Final = 20


@dataclass(frozen=True, slots=True)
class Window:
    """From ``begin`` to ``end`` these queues of one lane and tenant were backlogged; the costs they were served."""

    lane: str
    tenant: str
    begin: float
    end: float
    served: dict[str, float]


def jain(shares: Sequence[float]) -> float:
    """Return Jain's index: 1 for equal shares, 1/n when one has everything."""
    total = sum(shares)
    return total * total / (len(shares) * sum(share * share for share in shares)) if total else 1.0


def fairness(evidence: Evidence) -> Iterator[str]:
    """I7: in every calm window, shares differ by at most two turns, and what may be on its way; Jain's index holds."""
    run = evidence.run
    if run is None:
        return
    most = max((change.cost for change in evidence.changes), default=1.0)
    for window in windows(evidence, run):
        shares = list(window.served.values())
        # A turn and a task of either queue, and each slot may hold a task whose start is not noted yet.
        allowed = 2 * (run.quantum + most) + run.slots * most
        where = f"in lane {window.lane} of {window.tenant} from {window.begin:.2f} to {window.end:.2f}"
        if max(shares) - min(shares) > allowed:
            yield f"{where}: served {window.served}, more than {allowed:g} apart"
        elif sum(shares) >= ROUNDS * run.quantum * len(shares) and jain(shares) < JAIN:
            yield f"{where}: served {window.served}, Jain's index {jain(shares):.3f}"


def windows(evidence: Evidence, run: Run) -> Iterator[Window]:
    """Yield the calm windows in which at least two device queues were backlogged throughout."""
    lanes: defaultdict[tuple[str, str], list[Change]] = defaultdict(list)
    for change in evidence.changes:
        if change.object is None:
            lanes[change.lane, change.tenant].append(change)
    faults = [fault.at for fault in evidence.records(Fault)]
    for (lane, tenant), changes in lanes.items():
        yield from _windows_of(lane, tenant, sorted(changes, key=lambda each: each.at), run.slots, faults)


def _windows_of(
    lane: str, tenant: str, changes: Sequence[Change], slots: int, faults: Sequence[float]
) -> Iterator[Window]:
    waiting: defaultdict[str, int] = defaultdict(int)
    served: dict[str, float] = {}
    begin = 0.0
    breaks = sorted(faults)
    for change in changes:
        broken = False
        while breaks and breaks[0] <= change.at:
            breaks.pop(0)
            broken = True
        if change.state == "running" and change.queue in served and not broken:
            served[change.queue] += change.cost
        waiting[change.queue] += (change.state == "queued") - (change.before == "queued")
        backlogged = {queue for queue, count in waiting.items() if count > slots}
        if broken or backlogged != served.keys():
            if len(served) > 1 and any(served.values()):
                yield Window(lane, tenant, begin, change.at, served)
            served, begin = dict.fromkeys(backlogged, 0.0), change.at
