"""How state machines are run: the same examples each time; by ``MACHINE_EXAMPLES`` so many, at random, unlimited."""

from __future__ import annotations

import os
from typing import Final

import hypothesis
import pytest

_EXAMPLES: Final = os.environ.get("MACHINE_EXAMPLES")

patient = pytest.mark.timeout(0 if _EXAMPLES else 600)
"""A mark wins over ``--timeout``: whoever asks for thousands of examples has no limit."""


def machine_settings(examples: int) -> hypothesis.settings:
    """Return the settings for so many examples of fifty steps; a failure prints what repeats it."""
    return hypothesis.settings(
        max_examples=int(_EXAMPLES or examples),
        stateful_step_count=50,
        derandomize=_EXAMPLES is None,
        database=None,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
