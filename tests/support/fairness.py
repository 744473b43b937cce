"""Compares what competitors have received while both were waiting."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable


class Fairness:
    """What each queue (or tenant) of a lane has received, compared between any two while both are backlogged."""

    def __init__(self, bound: float) -> None:
        self._bound = bound
        self._received: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._since: dict[tuple[str, str, str], float] = {}
        self._refunded: defaultdict[tuple[str, str], float] = defaultdict(float)

    def serve(self, lane: str, name: str, cost: float) -> None:
        """Note what was sent."""
        self._received[lane, name] += cost

    def refund(self, lane: str, name: str, cost: float) -> None:
        """Note what was given back unused: it is made up for later."""
        self._refunded[lane, name] += cost

    def refunded(self, lane: str, name: str) -> float:
        """Return all that was given back unused."""
        return self._refunded[lane, name]

    def forget(self) -> None:
        """Begin anew: the virtual clocks did."""
        self._since.clear()

    def unfair(self, backlogged: set[tuple[str, str]], group_of: Callable[[str], str]) -> list[str]:
        """Return the pairs whose service differs by more than the bound since both have been waiting."""
        pairs = {
            (lane, a, b)
            for lane, a in backlogged
            for other, b in backlogged
            if lane == other and a < b and group_of(a) == group_of(b)
        }
        for gone in self._since.keys() - pairs:
            del self._since[gone]
        wrong = []
        for lane, a, b in pairs:
            ahead = self._received[lane, a] - self._received[lane, b]
            since = self._since.setdefault((lane, a, b), ahead)
            if abs(ahead - since) > self._bound + self._refunded[lane, a] + self._refunded[lane, b]:
                wrong.append(f"{lane}: {a} has received {ahead - since:+} more than {b} while both waited")
        return wrong
