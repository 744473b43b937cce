"""Histograms of durations that can be added up: fixed buckets, each a quarter of a power of two wide.

Bucket 0 holds what took up to a millisecond, bucket i what took more than ``2 ** ((i - 1) / 4)`` and at most
``2 ** (i / 4)`` ms, the last one (2^30 ms, twelve days) whatever took longer. A histogram is an array of counts as long
as its highest bucket that is not empty. Fixed buckets make the sum of two histograms that of their tasks, in whatever
order they are added.

A quantile is told as the value whose relative distance to both ends of its bucket is the same, as in Masson, Rim, Lee:
DDSketch (VLDB 2019): the true one (the ceil(q n)-th smallest) is off by at most `RELATIVE_ERROR`, or by 1 ms in
bucket 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

_STEPS: Final = 4
_LAST: Final = 30 * _STEPS
_GROWTH: Final = 2 ** (1 / _STEPS)

RELATIVE_ERROR: Final = (_GROWTH - 1) / (_GROWTH + 1)
"""8.7 %."""


def bucket_sql(microseconds: str) -> str:
    """Return the SQL expression of the bucket of a bigint; NULL stays NULL."""
    in_steps = f"ceil({_STEPS} * ln({microseconds} / 1000::float8) / ln(2::float8))"
    return (
        f"(CASE WHEN {microseconds} <= 1000 THEN 0 WHEN {microseconds} > 1000 THEN least({_LAST}, {in_steps}) END)::int"
    )


def quantile(counts: Sequence[int], share: float) -> float | None:
    """Return the duration, in seconds, within which this share of what was counted lay; None of nothing."""
    total = sum(counts)
    if not total:
        return None
    rank = max(1, math.ceil(share * total))
    bucket = next(bucket for bucket, seen in enumerate(accumulate(counts)) if seen >= rank)
    if bucket == 0:
        return 0.001
    return float(2 * _GROWTH**bucket / (_GROWTH + 1)) / 1000
