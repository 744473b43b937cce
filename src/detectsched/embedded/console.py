"""One terminal for several processes: each line says whose it is."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Final, TextIO

from detectsched.telemetry import get_logger

log = get_logger(__name__)

_COLOURS: Final = (36, 35, 33, 32, 34, 96, 95, 93)
_WIDTH: Final = 10
_OURS: Final = "up"


class Console:
    """Writes the lines of all processes to one stream: coloured by process on a terminal, plain elsewhere.

    ``lines`` is where the lines of the processes go, if not to the same stream.

    With ``prefixed=False`` the lines of the processes pass through untouched, since a prefix would spoil JSON, and what
    the supervisor says goes through the log like everything else.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        lines: TextIO | None = None,
        prefixed: bool = True,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._stream = stream
        self._lines = lines or stream
        self._prefixed = prefixed
        # https://no-color.org
        self._may_colour = not environment.get("NO_COLOR")
        self._names = [_OURS]

    def writer(self, name: str) -> Callable[[str], None]:
        """Return what takes the lines of a process."""
        return self._writer(name, self._lines)

    def _writer(self, name: str, stream: TextIO) -> Callable[[str], None]:
        if not self._prefixed:
            return lambda line: print(line, file=stream, flush=True)
        if name not in self._names:
            self._names.append(name)
        prefix = f"{name:<{_WIDTH}} | "
        if self._may_colour and stream.isatty():
            colour = _COLOURS[self._names.index(name) % len(_COLOURS)]
            prefix = f"\x1b[{colour}m{prefix}\x1b[0m"
        return lambda line: print(prefix + line, file=stream, flush=True)

    def say(self, text: str) -> None:
        """Say something as the supervisor."""
        if not self._prefixed:
            log.info(text)
            return
        write = self._writer(_OURS, self._stream)
        for line in text.splitlines():
            write(line)
