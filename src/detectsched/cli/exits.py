"""Exit statuses: 0 done, 1 failed, 2 used wrongly, 3 not found, 75 try again later."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

from detectsched.errors import ConfigurationError, DetectschedError, InvalidRequest, NotFound, StoreUnavailable

_STATUS: Final = {ConfigurationError: 2, InvalidRequest: 2, NotFound: 3, StoreUnavailable: 75}


def exit_code_of(command: Callable[[], Any]) -> Any:
    """Run a command; one of our errors ends the process with a sentence and a status."""
    try:
        return command()
    except DetectschedError as error:
        sys.stderr.write(f"detectsched: {error.detail}\n")
        sys.exit(next((status for kind, status in _STATUS.items() if isinstance(error, kind)), 1))
