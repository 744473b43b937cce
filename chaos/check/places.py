"""I2 and I6: every open task has one place in Redis, ended ones have none, and each counter equals a recount."""

from __future__ import annotations

from collections.abc import Iterator

from chaos.check.evidence import Evidence
from chaos.journal import Sample


def places(evidence: Evidence) -> Iterator[str]:
    """I2: nothing stands in two places, in none, or in one that nobody will ever clear."""
    yield from evidence.snapshot.misplaced(evidence.open, evidence.now_ms)
    for key in evidence.unowned:
        yield f"{key} has no TTL and no owner"


def counters(evidence: Evidence) -> Iterator[str]:
    """I6: each counter equals a recount, and was never negative."""
    yield from evidence.snapshot.wrong_counts(evidence.open)
    for sample in evidence.records(Sample):
        for name, count in sample.counters.items():
            if count < 0:
                yield f"{name} was {count} at {sample.at:.3f}"
