"""A queue with a clock of its own, and a ledger."""

from __future__ import annotations

from tests.db.conftest import ledger
from tests.queueing.conftest import bench

__all__ = ["bench", "ledger"]
