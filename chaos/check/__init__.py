"""The checker: reads the client's journal, PostgreSQL and Redis, and says which invariants do not hold.

The invariants I1 to I10 are those of docs/reliability.md. Each is a pure function of the `Evidence`; none asks the
code under test anything but how a task's place is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from chaos.check.evidence import Evidence
from chaos.check.fairness import fairness
from chaos.check.order import fences, serial
from chaos.check.places import counters, places
from chaos.check.recovery import bounds, liveness, sometimes
from chaos.check.tasks import conservation, one_result

__all__ = ["INVARIANTS", "Evidence", "violations"]

Invariant: TypeAlias = Callable[[Evidence], Iterator[str]]

INVARIANTS: Final[dict[str, Invariant]] = {
    "I1 conservation": conservation,
    "I2 place": places,
    "I3 serial": serial,
    "I4 one result": one_result,
    "I5 fence": fences,
    "I6 counters": counters,
    "I7 fairness": fairness,
    "I8 liveness": liveness,
    "I9 bound": bounds,
    "I10 sometimes": sometimes,
}


def violations(evidence: Evidence) -> dict[str, list[str]]:
    """Return what is wrong, by invariant; every invariant is a key, a good one with an empty list."""
    return {name: list(check(evidence)) for name, check in INVARIANTS.items()}
