"""A real runner with the stand-in engine: ``python -m chaos.runner SEED LANE[,LANE]``."""

from __future__ import annotations

import sys

from detectsched.cli.exits import exit_code_of
from detectsched.cli.process import run_daemon
from detectsched.runner.daemon import runner_services


def main() -> int:
    """Run until told to stop."""
    seed, lanes = sys.argv[1], sys.argv[2].split(",")
    command = (sys.executable, "-m", "chaos.engine", seed)
    return run_daemon(
        "runner",
        lambda stores: runner_services(
            stores.queue, stores.ledger, stores.blobs, stores.settings, lanes, engine_command=command
        ),
    )


if __name__ == "__main__":
    sys.exit(exit_code_of(main))
