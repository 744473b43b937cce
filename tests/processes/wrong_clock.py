"""A process of ours whose wall clock is wrong: ``python -m tests.processes.wrong_clock SECONDS COMMAND…``.

`detectsched.clock` is the only source of the wall clock (tests/test_clocks.py), so it is shifted there, before anybody
has imported it.
"""

from __future__ import annotations

import runpy
import sys
import time
from datetime import datetime, timedelta

from detectsched import clock


def main() -> None:
    """Shift the clock, then run the command as it always is."""
    shift = float(sys.argv[1])
    sys.argv = ["detectsched", *sys.argv[2:]]
    right_time, right_now = time.time, clock.utc_now

    def wrong_now() -> datetime:
        return right_now() + timedelta(seconds=shift)

    clock.utc_now = wrong_now
    time.time = lambda: right_time() + shift
    runpy.run_module("detectsched", run_name="__main__")


if __name__ == "__main__":
    main()
